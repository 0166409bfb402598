#pragma once
/// @file conforms.hpp
/// What a test proves, noted in its report (`--gtest_output=json:FILE`), from which
/// `rungs results --conformance` makes the tables of docs/results.

#include <rungs/config.hpp>

#include <gtest/gtest.h>

#include <string>

namespace rungs::testing {

/// The running test compares the whole output of these wrappers of rungs/ptx with an oracle, on
/// whichever machine it runs. Once a test.
/// @param wrappers names as in the headers, separated by spaces
inline void conforms(const std::string& wrappers) {
  ::testing::Test::RecordProperty("conforms", wrappers);
}

/// The running test passes if the emulator catches this planted bug. Once a test.
/// @param caught_by the check that does: "deadlock report", "fence epoch", "wrong result" ...
inline void planted(const std::string& bug, const std::string& caught_by) {
  ::testing::Test::RecordProperty("planted", bug);
  ::testing::Test::RecordProperty("caught_by", caught_by);
}

}  // namespace rungs::testing
