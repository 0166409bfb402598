#pragma once
/// @file ladder_view.hpp
/// Climbing one operation's ladder in front of the user: every rung on every case, checked, then
/// counted (emulator) or timed (GPU).

#include "report.hpp"

#include <rungs/ladder/operation.hpp>

namespace rungs::cli {

struct ClimbOptions {
  bool quick = false;    ///< only cases marked for --quick
  int repetitions = 10;  ///< of a timing on a GPU; the median is shown
};

/// Prints the ladder's table; adds checks and rows to the report. A rung that does not support a
/// case is shown with its reason and is no check. Ends after the rung in which a signal arrived, if
/// an InterruptGuard lives.
void climb(const ladder::Operation& operation, const ladder::Machine& machine,
           const ClimbOptions& options, Report& report);

}  // namespace rungs::cli
