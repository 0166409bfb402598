#pragma once
/// @file env.hpp
/// Environment variables with types. A variable that is unset or empty has its default; a bad value
/// is an error that names variable, value and what is allowed.

#include <cstdint>
#include <optional>
#include <string>

namespace rungs {

namespace env {

/// The variable's text, or nothing when it is unset or empty.
std::optional<std::string> text(const char* name);
std::string string(const char* name, const std::string& otherwise);
/// @throws Error kInvalidArgument unless the value is a whole decimal number in [min, max]
std::int64_t integer(const char* name, std::int64_t otherwise, std::int64_t min, std::int64_t max);
/// @throws Error kInvalidArgument unless the value is a finite number in [min, max]
double number(const char* name, double otherwise, double min, double max);
/// 1, true, yes, on; 0, false, no, off. @throws Error kInvalidArgument for anything else
bool flag(const char* name, bool otherwise);

}  // namespace env

/// Which process of how many this is, as its launcher said.
struct RankEnvironment {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;  ///< among the ranks of this host
  int local_size = 1;
  std::string master_address = "127.0.0.1";  ///< where rank 0 can be reached
  int master_port = 29500;
  std::string launcher;  ///< "torchrun", "mpirun", "srun"; empty: nobody launched this process

  /// Reads torchrun's variables (RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR,
  /// MASTER_PORT; also set by `rungs launch`), else Open MPI's or MPICH's, else srun's. Without
  /// any: one rank. Where a launcher says nothing of hosts, all ranks are taken to be on this one.
  /// @throws Error kInvalidArgument naming the variable that is missing, no number or out of range
  static RankEnvironment read();
};

}  // namespace rungs
