#pragma once
/// @file text.hpp
/// Text for people: how wide UTF-8 is on a terminal, and numbers with units.

#include <cstddef>
#include <string>
#include <string_view>

namespace rungs {

/// Columns that UTF-8 text takes on a terminal: East Asian wide characters two, combining marks
/// none. A byte that is no UTF-8 counts as one column.
std::size_t display_width(std::string_view text);
/// The longest beginning of `text` that fits in `columns`; a cut one ends in "…".
std::string cut_to_width(std::string_view text, std::size_t columns);
/// `text` with spaces after (before) it up to `columns`.
std::string pad_right(std::string_view text, std::size_t columns);
std::string pad_left(std::string_view text, std::size_t columns);

/// Three digits and a unit that fits: "81.3 µs", "2.50 s". Not finite: "–".
std::string format_seconds(double seconds);
/// "0:07", "12:30", "1:02:30": a clock for people who wait.
std::string format_clock(double seconds);
/// Three digits and a decimal prefix: format_quantity(3.1e12, "FLOP/s") is "3.10 TFLOP/s". Not
/// finite: "–".
std::string format_quantity(double value, std::string_view unit);

}  // namespace rungs
