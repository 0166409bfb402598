#pragma once
/// @file launcher.hpp
/// Starts a program as several ranks and stays with them until the last has ended.

#include <string>
#include <vector>

namespace rungs::cli {

/// What to start, and where in the whole job this launcher's ranks stand.
struct LaunchPlan {
  std::vector<std::string> words;  ///< the program and its arguments
  int local_ranks = 1;             ///< that this launcher starts
  int nodes = 1;
  int node = 0;
  std::string master_address = "127.0.0.1";
  int master_port = 0;       ///< 0: a free one (one node only)
  std::string secret;        ///< what the ranks prove to each other; empty: 16 random bytes
  bool prefix = true;        ///< "[rank 2] " before each line of theirs
  double grace_seconds = 5;  ///< from SIGTERM to SIGKILL for those left after a rank failed
};

/// Runs the ranks, each with torchrun's variables, RUNGS_SECRET and no standard input. Their lines
/// come out whole, never mixed within a line. When one fails the others are ended; SIGINT and
/// SIGTERM are handed on; if the launcher itself is killed, so are they.
/// @return 0 if all did; otherwise the status of the rank that failed first (128 + signal), whose
///         number was said on standard error
/// @throws Error kInvalidArgument if the program cannot be executed; kSystem
int launch(const LaunchPlan& plan);

}  // namespace rungs::cli
