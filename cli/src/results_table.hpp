#pragma once
/// @file results_table.hpp
/// The Markdown table of a folder of results.

#include <string>

namespace rungs::cli {

/// One table a machine, folders in the order of their names. A line an operation: its case with the
/// longest naive time, the naive rung beside the fastest one that was checked in the same file.
/// Files of benches come before the tour's, later runs before earlier ones.
/// @throws Error kSystem if there is no such folder; kInvalidArgument naming a file that holds no
///         rows
std::string results_table(const std::string& folder);

}  // namespace rungs::cli
