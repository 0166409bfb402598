// How fast the emulator is: one worker, on one core.
//
// Times are processor time of the whole process (a worker computes, the caller sleeps), the least
// of several repetitions: other programs on the machine disturb them little. Every kernel's output
// is checked before it is timed.
//
//     rungs_emulator_bench [--json FILE] [--cpu N] [Google Benchmark's options]

#include "../tests/launch_kernel.hpp"
#include "bench_kernels.hpp"

#include <rungs/core/error.hpp>
#include <rungs/ladder/results.hpp>

#include <benchmark/benchmark.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace rungs::emulator::bench {
namespace {

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// One row of the table: a launch, and what its time means.
struct Case {
  std::string what;       // "syncthreads"
  std::string case_name;  // "256 threads"
  std::string unit;
  double target;  // in `unit`; NaN: none
  bool is_rate;   // more is better; the target is a floor
  double amount;  // value = is_rate ? amount / time : time / amount * scale
  double scale;   // units of a second
  int repetitions;
  std::function<std::string()> launch;  // returns the emulator's report
  std::function<bool()> check;          // after one launch

  [[nodiscard]] double value(double seconds) const {
    return is_rate ? amount * scale / seconds : seconds * scale / amount;
  }
};

std::vector<float> random_floats(std::size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_int_distribution<int> distribution(-8, 8);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(distribution(engine)) / 8.0f;
  return values;
}

// Sums of products of eighths: exact in float as long as they stay below 2^18.
bool is_product(const std::vector<float>& c, const std::vector<float>& a,
                const std::vector<float>& b, int n, bool b_transposed) {
  std::mt19937 engine(9);
  for (int sample = 0; sample < 2000; sample++) {
    const std::size_t row = engine() % static_cast<unsigned>(n);
    const std::size_t column = engine() % static_cast<unsigned>(n);
    const auto width = static_cast<std::size_t>(n);
    double sum = 0;
    for (std::size_t k = 0; k < width; k++) {
      sum += static_cast<double>(a[row * width + k]) *
             static_cast<double>(b_transposed ? b[column * width + k] : b[k * width + column]);
    }
    if (!(static_cast<double>(c[row * width + column]) == sum)) return false;
  }
  return true;
}

Case elementwise(Executor& executor) {
  constexpr int kThreads = 1 << 20;
  auto x = std::make_shared<std::vector<float>>(random_floats(kThreads, 1));
  auto y = std::make_shared<std::vector<float>>(kThreads, 1.0f);
  const gpu::LaunchConfig config{.grid = {kThreads / 256}, .block = {256}};
  return {.what = "elementwise",
          .case_name = "1 element a thread",
          .unit = "M threads/s",
          .target = 20,
          .is_rate = true,
          .amount = kThreads,
          .scale = 1e-6,
          .repetitions = 20,
          .launch =
              [=, &executor] {
                return testing::run(executor, config, axpy_kernel, 2.0f, x->data(), y->data(),
                                    kThreads);
              },
          .check =
              [=] {
                for (std::size_t i = 0; i < x->size(); i++) {
                  if (!((*y)[i] == 2.0f * (*x)[i] + 1.0f)) return false;
                }
                return true;
              }};
}

Case syncthreads(Executor& executor, unsigned threads) {
  constexpr int kRounds = 4000;
  const gpu::LaunchConfig config{.grid = {1}, .block = {threads}};
  return {
      .what = "syncthreads",
      .case_name = std::to_string(threads) + " threads",
      .unit = "ns a thread",
      .target = 15,
      .is_rate = false,
      .amount = static_cast<double>(kRounds) * threads,
      .scale = 1e9,
      .repetitions = 20,
      .launch = [=, &executor] { return testing::run(executor, config, barriers_kernel, kRounds); },
      .check =
          [&executor, done = executor.counters().barriers] {
            return executor.counters().barriers >= done + kRounds;
          }};
}

Case shuffle(Executor& executor) {
  constexpr int kRounds = 1000;
  constexpr unsigned kThreads = 128;
  auto sums = std::make_shared<std::vector<std::uint32_t>>(kThreads);
  const gpu::LaunchConfig config{.grid = {1}, .block = {kThreads}};
  return {.what = "shuffle",
          .case_name = "128 threads",
          .unit = "ns a lane",
          .target = std::nan(""),
          .is_rate = false,
          .amount = static_cast<double>(kRounds) * kThreads,
          .scale = 1e9,
          .repetitions = 20,
          .launch =
              [=, &executor] {
                return testing::run(executor, config, shuffles_kernel, kRounds, sums->data());
              },
          .check =
              [=] {
                for (std::uint32_t i = 0; i < kThreads; i++) {
                  std::uint32_t expected = i + (i ^ 1u);  // then both are equal and double
                  for (int round = 1; round < kRounds; round++) expected *= 2;
                  if ((*sums)[i] != expected) return false;
                }
                return true;
              }};
}

Case cta_setup(Executor& executor, unsigned threads, std::uint32_t shared_bytes) {
  constexpr unsigned kBlocks = 500;
  auto met = std::make_shared<std::vector<std::uint32_t>>(kBlocks);
  const gpu::LaunchConfig config{
      .grid = {kBlocks}, .block = {threads}, .shared_bytes = shared_bytes};
  return {
      .what = "cta_setup",
      .case_name =
          std::to_string(threads) + " threads, " + std::to_string(shared_bytes / 1024) + " KiB",
      .unit = "us a CTA",
      .target = 50,
      .is_rate = false,
      .amount = kBlocks,
      .scale = 1e6,
      .repetitions = 20,
      .launch =
          [=, &executor] { return testing::run(executor, config, meet_once_kernel, met->data()); },
      .check =
          [=] {
            return std::all_of(met->begin(), met->end(), [](std::uint32_t n) { return n == 1; });
          }};
}

Case tiled_gemm(Executor& executor, int n) {
  const auto elements = static_cast<std::size_t>(n) * static_cast<std::size_t>(n);
  auto a = std::make_shared<std::vector<float>>(random_floats(elements, 2));
  auto b = std::make_shared<std::vector<float>>(random_floats(elements, 3));
  auto c = std::make_shared<std::vector<float>>(elements, std::nanf(""));
  const auto blocks = static_cast<unsigned>(n / 16);
  const gpu::LaunchConfig config{.grid = {blocks, blocks}, .block = {16, 16}};
  return {.what = "gemm_tiled_16x16",
          .case_name = std::to_string(n) + "^3 float",
          .unit = "GFLOP/s",
          .target = 1,
          .is_rate = true,
          .amount = 2.0 * n * n * n,
          .scale = 1e-9,
          .repetitions = 8,
          .launch =
              [=, &executor] {
                return testing::run(executor, config, tiled_gemm_kernel, a->data(), b->data(),
                                    c->data(), n);
              },
          .check = [=] { return is_product(*c, *a, *b, n, false); }};
}

Case wgmma_gemm(Executor& executor) {
  constexpr int kN = 1024;
  constexpr std::size_t kElements = std::size_t{kN} * kN;
  auto a = std::make_shared<std::vector<float>>(random_floats(kElements, 4));
  auto b = std::make_shared<std::vector<float>>(random_floats(kElements, 5));
  auto c = std::make_shared<std::vector<float>>(kElements, std::nanf(""));
  // TMA wants its matrices aligned.
  const std::shared_ptr<bf16> halves(
      static_cast<bf16*>(std::aligned_alloc(128, 2 * kElements * sizeof(bf16))), &std::free);
  for (std::size_t i = 0; i < kElements; i++) {
    halves.get()[i] = to_bf16((*a)[i]);
    halves.get()[kElements + i] = to_bf16((*b)[i]);
  }
  const auto map = [&](std::size_t offset, std::uint32_t rows) {
    return gpu::make_tensor_map_2d(halves.get() + offset, DType::kBf16, kN, kN, kN * sizeof(bf16),
                                   rows, kGemmDepth, gpu::Swizzle::k128B);
  };
  const gpu::TensorMap map_a = map(0, kGemmRows);
  const gpu::TensorMap map_b = map(kElements, kGemmCols);
  const gpu::LaunchConfig config{.grid = {kN / kGemmCols, kN / kGemmRows},
                                 .block = {kGemmThreads},
                                 .shared_bytes = wgmma_gemm_shared_bytes()};
  return {.what = "gemm_wgmma",
          .case_name = "1024^3 bf16",
          .unit = "s",
          .target = 0.15,
          .is_rate = false,
          .amount = 1,
          .scale = 1,
          .repetitions = 10,
          .launch =
              [=, &executor] {
                (void)halves;  // keeps it alive
                return testing::run(executor, config, wgmma_gemm_kernel, map_a, map_b, c->data(),
                                    kN, kN);
              },
          .check = [=] { return is_product(*c, *a, *b, kN, true); }};
}

void time_case(benchmark::State& state, const Case& one) {
  for ([[maybe_unused]] auto iteration : state) {
    const double begin = processor_seconds();
    const std::string report = one.launch();
    state.SetIterationTime(processor_seconds() - begin);
    if (!report.empty()) return state.SkipWithError(report.c_str());
  }
}

/// Keeps the least time of each case; prints the table in the end.
class Reporter : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration) continue;
      const auto name = run.run_name.function_name;
      if (run.error_occurred) {
        std::printf("%s: %s\n", name.c_str(), run.error_message.c_str());
        failed = true;
        continue;
      }
      const double seconds = run.real_accumulated_time / static_cast<double>(run.iterations);
      const auto known = least.try_emplace(name, seconds).first;
      known->second = std::min(known->second, seconds);
    }
  }
  std::map<std::string, double> least;
  bool failed = false;
};

std::string name_of(const Case& one) { return one.what + "/" + one.case_name; }

int pin_to(int cpu) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return -1;
  for (int last = CPU_SETSIZE - 1; cpu < 0 && last >= 0; last--) {
    if (CPU_ISSET(last, &set)) cpu = last;
  }
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return sched_setaffinity(0, sizeof(set), &set) == 0 ? cpu : -1;
}

int run_all(int argc, char** argv) {
  std::string json;
  int cpu = -1;
  std::vector<char*> rest{argv[0]};
  for (int i = 1; i < argc; i++) {
    const std::string argument = argv[i];
    if (argument == "--json" && i + 1 < argc) {
      json = argv[++i];
    } else if (argument == "--cpu" && i + 1 < argc) {
      cpu = std::atoi(argv[++i]);
    } else {
      rest.push_back(argv[i]);
    }
  }
  int count = static_cast<int>(rest.size());
  benchmark::Initialize(&count, rest.data());
  if (benchmark::ReportUnrecognizedArguments(count, rest.data())) return 2;

  const std::string machine = ladder::machine_name();
  cpu = pin_to(cpu);  // the worker inherits it
  double load = 0;
  getloadavg(&load, 1);
  std::printf("emulator, 1 worker on core %d of %s; load of the machine %.1f\n", cpu,
              ladder::cpu_name().c_str(), load);
  if (load > 1) std::printf("the machine is busy: shared caches and clocks make times longer\n");

  Executor executor({.sm_count = 1, .workers = 1});
  const std::vector<Case> cases{wgmma_gemm(executor),
                                elementwise(executor),
                                syncthreads(executor, 128),
                                syncthreads(executor, 256),
                                syncthreads(executor, 1024),
                                shuffle(executor),
                                tiled_gemm(executor, 256),
                                tiled_gemm(executor, 512),
                                cta_setup(executor, 256, 48 * 1024),
                                cta_setup(executor, 384, 192 * 1024)};
  for (const Case& one : cases) {
    benchmark::RegisterBenchmark(name_of(one).c_str(), time_case, one)
        ->UseManualTime()
        ->Iterations(1)
        ->Repetitions(one.repetitions);
  }
  for (const Case& one : cases) {
    const std::string report = one.launch();
    if (report.empty() && one.check()) continue;
    std::printf("%s: wrong result, not timed. %s\n", name_of(one).c_str(), report.c_str());
    return 1;
  }
  Reporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);

  std::vector<ladder::Row> rows;
  std::printf("%-34s %12s  %-12s %s\n", "what", "value", "unit", "target");
  for (const Case& one : cases) {
    const auto found = reporter.least.find(name_of(one));
    if (found == reporter.least.end()) continue;
    const double value = one.value(found->second);
    const bool has_target = !std::isnan(one.target);
    const bool met = one.is_rate ? value >= one.target : value <= one.target;
    std::printf("%-34s %12.4g  %-12s ", name_of(one).c_str(), value, one.unit.c_str());
    if (has_target)
      std::printf("%s %g  %s", one.is_rate ? ">=" : "<=", one.target, met ? "met" : "MISSED");
    std::printf("\n");
    ladder::Row row = ladder::make_row("emulator", "emulator/" + one.what);
    row.machine = machine;
    row.rung = "one_worker";
    row.case_name = one.case_name;
    row.checked = true;
    row.metric = one.is_rate ? "rate" : "time";
    row.value = value;
    row.unit = one.unit;
    rows.push_back(row);
    if (!has_target) continue;
    row.metric = "target";
    row.value = one.target;
    rows.push_back(row);
  }
  if (!json.empty()) ladder::write_rows(json, rows);
  return reporter.failed ? 1 : 0;
}

}  // namespace
}  // namespace rungs::emulator::bench

int main(int argc, char** argv) {
  try {
    return rungs::emulator::bench::run_all(argc, argv);
  } catch (const rungs::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
