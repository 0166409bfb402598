#pragma once
/// Runs contenders through Google Benchmark.

#include <rungs/ladder/operation.hpp>

#include <string>
#include <vector>

namespace rungs::bench::detail {

/// A contender that passed its check, and the times that were taken of it.
struct Timed {
  std::string name;  ///< unique
  ladder::Trial* trial = nullptr;
  int repetitions = 1;
  std::vector<double> seconds;
  std::string failure;  ///< text of what its run threw
};

/// Times each as often as it says, one iteration a repetition, in an order that Google Benchmark
/// shuffles, so that clocks and temperature are shared fairly.
void time_interleaved(std::vector<Timed>& contenders);

}  // namespace rungs::bench::detail
