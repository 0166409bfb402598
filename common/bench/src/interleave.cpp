#include "interleave.hpp"

#include <rungs/core/error.hpp>

#include <benchmark/benchmark.h>

#include <array>
#include <exception>
#include <map>
#include <utility>

namespace rungs::bench::detail {
namespace {

// Takes the manual time of every repetition; prints nothing.
class Collector final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration || run.iterations <= 0) continue;
      times_[run.run_name.function_name].push_back(run.real_accumulated_time /
                                                   static_cast<double>(run.iterations));
    }
  }
  std::vector<double> times_of(const std::string& name) const {
    const auto found = times_.find(name);
    return found == times_.end() ? std::vector<double>() : found->second;
  }

 private:
  std::map<std::string, std::vector<double>> times_;
};

// Random interleaving has no function of its own: it is a flag of the command line.
void set_flags() {
  std::string program = "rungs";
  std::string interleave = "--benchmark_enable_random_interleaving=true";
  std::array<char*, 3> arguments{program.data(), interleave.data(), nullptr};
  int count = 2;
  benchmark::Initialize(&count, arguments.data());
}

void run_one(benchmark::State& state, Timed& timed) {
  for ([[maybe_unused]] auto _ : state) {
    if (!timed.failure.empty()) {
      state.SkipWithError(timed.failure.c_str());
      return;
    }
    try {
      state.SetIterationTime(timed.trial->time_once());
    } catch (const std::exception& error) {
      // Google Benchmark would let it end the program.
      const auto* ours = dynamic_cast<const Error*>(&error);
      timed.failure = ours != nullptr ? ours->message() : error.what();
      state.SkipWithError(timed.failure.c_str());
      return;
    }
  }
}

}  // namespace

void time_interleaved(std::vector<Timed>& contenders) {
  if (contenders.empty()) return;
  set_flags();
  benchmark::ClearRegisteredBenchmarks();
  for (Timed& timed : contenders) {
    benchmark::RegisterBenchmark(timed.name.c_str(),
                                 [&timed](benchmark::State& state) { run_one(state, timed); })
        ->Iterations(1)
        ->Repetitions(timed.repetitions)
        ->UseManualTime();
  }
  Collector collector;
  benchmark::RunSpecifiedBenchmarks(&collector, nullptr, "all");
  benchmark::ClearRegisteredBenchmarks();
  for (Timed& timed : contenders) {
    if (timed.failure.empty()) timed.seconds = collector.times_of(timed.name);
  }
}

}  // namespace rungs::bench::detail
