#pragma once
/// @file operation.hpp
/// An operation as the harness sees it: type-erased rungs and cases that can be run, checked and
/// timed. Each stage's catalog target exports `std::vector<ladder::Operation> operations()`.

#include <rungs/gpu/counters.hpp>
#include <rungs/ladder/rung.hpp>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace rungs::ladder {

/// What the operation must at least do for one case; the chapter's cost model in numbers.
struct Cost {
  double flops = 0;
  double bytes = 0;       ///< through device memory, each input once, each output once
  double wire_bytes = 0;  ///< between ranks
  double steps = 0;       ///< dependent communication steps
};

/// One set of sizes.
struct Case {
  std::string name;  ///< "512x512x512"
  Cost cost;
  bool in_tour = false;   ///< small enough for the tour on the emulator
  bool in_quick = false;  ///< and for `--quick`
  bool gpu_only = false;  ///< too large for the emulator
};

/// What came out of running one rung on one case.
struct Outcome {
  bool checked = false;         ///< the output was compared and lay within `bound` everywhere
  double error = 0;             ///< largest |difference| ÷ that element's bound
  double bound = 0;             ///< what `error` may be at most: 1 once a comparison was made
  double check_seconds = 0;     ///< wall time of a run and its wait: what a repetition may cost
  std::vector<double> seconds;  ///< one entry a timed repetition
  std::string note;             ///< first mismatch, or why it did not run
};

/// One rung (or peer) on one case, prepared, run once and checked; then timed as often as the
/// caller likes, which lets a benchmark interleave contenders. It keeps the case's buffers alive.
class Trial {
 public:
  virtual ~Trial() = default;
  /// The check's result; `seconds` is empty.
  [[nodiscard]] virtual const Outcome& outcome() const noexcept = 0;
  /// One timed repetition, in seconds a run. On a GPU: events around a replayed graph whose runs go
  /// round the input sets. Emulated and host operations: wall time of one run and its wait.
  /// @throws Error kInvalidArgument if the check failed: what is wrong is never timed
  virtual double time_once() = 0;
};

/// What one run of a checked trial does, by the counters of the device it runs on.
/// @throws what Trial::time_once() throws
gpu::Counters count_one_run(Trial& trial, const gpu::Device& device);

/// A vendor library's version of the operation, checked and timed the same way.
struct Peer {
  std::string name;  ///< "cublas"
  /// Empty when the machine has it; otherwise why not.
  std::function<std::string(const Machine&)> unavailable;
  std::function<std::unique_ptr<Trial>(std::size_t case_index, const Machine&)> trial;
  std::function<Outcome(std::size_t case_index, const Machine&, int repetitions)> run;
};

/// One operation of one stage. make_operation() (rungs/ladder/build.hpp) builds it from a typed
/// ladder.
/// @note not thread-safe: rungs of one operation share inputs and the naive rung's output
struct Operation {
  std::string stage;  ///< "07_gemm_hopper_blackwell"
  std::string name;   ///< "gemm_bf16"
  struct RungInfo {
    std::string name;
    std::string adds;
  };
  std::vector<RungInfo> rungs;  ///< naive first
  std::vector<Case> cases;
  int ranks = 1;
  bool on_host = false;     ///< runs on the CPU: its wall time means something without a GPU, too
  std::string oracle;       ///< what the output is compared with, in words
  std::string error_bound;  ///< the bound, in words
  std::function<Support(std::size_t rung, std::size_t case_index, const Machine&)> supports;
  /// Prepares, poisons, runs once and checks. Never throws for a rung that fails: the outcome's
  /// note says why.
  std::function<std::unique_ptr<Trial>(std::size_t rung, std::size_t case_index, const Machine&)>
      trial;
  /// Prepares inputs (fixed seed), poisons outputs, runs once and checks against the oracle and the
  /// naive rung, then times `repetitions` runs. Never times what failed its check.
  std::function<Outcome(std::size_t rung, std::size_t case_index, const Machine&, int repetitions)>
      run;
  std::vector<Peer> peers;
};

}  // namespace rungs::ladder
