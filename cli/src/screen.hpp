#pragma once
/// @file screen.hpp
/// Writing for people on standard output: paragraphs as wide as the terminal, colours where they
/// are wanted.

#include <rungs/core/table.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace rungs::cli {

/// Columns of the terminal on standard output, from COLUMNS otherwise, 100 if nobody says. At
/// least 40.
std::size_t screen_columns();

/// The text in a colour if standard output is a terminal and NO_COLOR is unset, otherwise as it is.
std::string good(std::string_view text);
std::string bad(std::string_view text);
std::string warn(std::string_view text);
std::string faint(std::string_view text);
std::string strong(std::string_view text);

/// The text broken at spaces to lines of the screen; every line but the first (whose start the
/// caller has written, `indent` columns wide) begins with `indent` spaces. Ends without a line
/// break.
std::string wrap(std::string_view text, std::size_t indent, std::size_t columns = screen_columns());

/// A line in bold after an empty one.
void heading(std::string_view text);
/// An indented, wrapped paragraph.
void paragraph(std::string_view text, std::size_t indent = 2);
/// Lines as they are. Flushes, so that progress on standard error comes after them.
/// @throws Error kSystem if standard output does not take them: a full disk, a closed reader
void write(std::string_view text);
/// A table broken to the columns of the terminal, or to COLUMNS; in a file without COLUMNS as wide
/// as it is, a row a line.
void write_table(const Table& table, std::size_t indent);
/// @throws Error kSystem if standard output did not take all that was written to it
void finish_output();

}  // namespace rungs::cli
