#pragma once
/// @file table.hpp
/// Plain text tables.

#include <cstddef>
#include <string>
#include <vector>

namespace rungs {

/// Rows of text under headings:
///
///     rung       time     checked
///     ---------  -------  -------
///     naive      80.1 ms  yes
///     tma_wgmma  7.90 ms  yes
///
/// A column whose cells are all numbers, with a unit or not (or are empty or a dash), is aligned
/// right; "512x256" is none.
/// Cells are UTF-8; line breaks in a cell become spaces.
class Table {
 public:
  explicit Table(std::vector<std::string> headings);
  /// @throws Error kInvalidArgument if the row has another number of cells than there are headings
  Table& add_row(std::vector<std::string> cells);
  [[nodiscard]] std::size_t rows() const noexcept { return rows_.size(); }
  /// The table, every line ended by a line break and without spaces at its end.
  /// @param indent columns left free before each line
  /// @param columns of the screen; 0: as wide as it gets. Headings and cells of text are broken at
  ///        spaces to fit; numbers and words are never broken, so that a line can still be longer
  [[nodiscard]] std::string to_string(std::size_t indent = 0, std::size_t columns = 0) const;

 private:
  std::vector<std::string> headings_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace rungs
