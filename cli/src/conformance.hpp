#pragma once
/// @file conformance.hpp
/// What GoogleTest's reports say of wrappers and planted bugs, as rows and as a page.

#include <rungs/ladder/results.hpp>

#include <string>
#include <vector>

namespace rungs::cli {

/// Rows of one machine, in the order of their names.
struct ConformanceRows {
  std::vector<ladder::Row> wrappers;  ///< conformance/<wrapper>: value the tests that passed
  std::vector<ladder::Row> bugs;      ///< planted/<bug>: case what catches it, or why nothing does
  std::vector<std::string> untried;   ///< bugs whose tests were all skipped
};

/// Reads reports that `--gtest_output=json:FILE` wrote, of all test programs and builds of one
/// machine. A wrapper is checked if all tests that name it passed; a bug is caught if its tests
/// passed and do not say that nothing catches it. A skipped test says nothing.
/// @param machine the rows' machine; empty: this one
/// @throws Error kSystem naming a file that cannot be read; kInvalidArgument naming one that is no
///         such report, or if no test of any notes a wrapper or a bug
ConformanceRows conformance_rows(const std::vector<std::string>& reports,
                                 const std::string& machine);

/// The page of all machines under `folder`: wrapper by machine, and the planted bugs.
/// @throws Error kSystem if there is no such folder; kInvalidArgument if it holds no such rows
std::string conformance_page(const std::string& folder);

}  // namespace rungs::cli
