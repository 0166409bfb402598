#pragma once
/// @file rerun.hpp
/// This test program again, in a process with another environment: for settings that are read once.

#include <rungs/config.hpp>

#include <string>

namespace rungs::testing {

struct Rerun {
  std::string command;  ///< what a reader can run
  int status = -1;      ///< as pclose() gives it: 0 if all passed
  std::string output;
};

/// @param environment "RUNGS_EMULATED_SMS=1 RUNGS_EMULATOR_SEED=2"
/// @param filter of GoogleTest: must not hold the test that calls this
/// @throws Error kSystem if no process can be started
Rerun rerun_self(const std::string& environment, const std::string& filter);

}  // namespace rungs::testing
