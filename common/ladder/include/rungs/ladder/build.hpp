#pragma once
/// @file build.hpp
/// From a typed ladder to an Operation that the harness can run: what a stage's catalog calls.
///
/// A stage says three things about one case: which buffers the call uses (a Problem), what the
/// right answer is (its Reference) and how wrong an answer may be (its bound). Everything else is
/// here, once: poisoning, running, element-wise checking against the oracle and against the naive
/// rung, rotation of inputs, timing.
///
///     class GemmProblem final : public ladder::Problem<Args> {
///      public:
///       GemmProblem(const Shape&, const gpu::Device&, std::uint64_t seed);  // random inputs
///       Args args() override;                        // views of the buffers this object owns
///       void reset() override;                       // NaN into C; its old contents if beta != 0
///       std::vector<float> output() override;        // C, downloaded
///       ladder::Reference reference() override;      // the product in double
///       double bound(std::size_t element) override;  // the chapter's formula
///     };
///     ladder::Operation gemm() {
///       ladder::OperationSpec<Args> spec;
///       spec.stage = "07_gemm_hopper_blackwell";  ...  spec.cases = {...};
///       spec.make_problem = [](std::size_t c, const ladder::Machine& m, std::uint64_t seed) {
///         return std::make_unique<GemmProblem>(kShapes[c], *m.device, seed);
///       };
///       return ladder::make_operation(kLadder, std::move(spec));
///     }

#include <rungs/ladder/operation.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rungs::ladder {

/// The right answer, from an oracle in double precision that shares no code with the rungs.
struct Reference {
  /// Expected values: of every element of output(), or of those in `positions`. Infinities must be
  /// met exactly.
  std::vector<double> values;
  /// Empty: every element. Otherwise the elements of output() that `values` speaks of: a fixed-seed
  /// sample, for sizes whose full oracle would take minutes. The comparison with the naive rung
  /// always covers every element.
  std::vector<std::size_t> positions;
};

/// One case's inputs and outputs, and the judge of them. The constructor makes the inputs from a
/// seed; a timing run on a GPU makes several objects of the same case and goes round them, so that
/// no input is still in the L2. Every function returns when the device has done what it says.
template <class Args>
class Problem {
 public:
  virtual ~Problem() = default;
  /// The call: views of buffers that live as long as this object. The same every time.
  virtual Args args() = 0;
  /// Before a run: fills every output with NaN and gives operands that are read and written their
  /// old contents.
  virtual void reset() = 0;
  /// After a run: all outputs, one after the other, as float (exact for bf16).
  virtual std::vector<float> output() = 0;
  /// Called at most once, for the object whose output is checked: put the expensive oracle here,
  /// not into the constructor.
  virtual Reference reference() = 0;
  /// How far output()[element] may lie from the exact result, absolutely; 0 asks for equality.
  /// Called after reference(). Two rungs may differ by twice as much.
  virtual double bound(std::size_t element) = 0;
  /// How messages call that element: "dq[0, 3, 1, 7]".
  virtual std::string describe(std::size_t element) { return "element " + std::to_string(element); }
};

/// A vendor library as a contender: prepared, checked and timed like a rung.
template <class Args>
struct PeerRung {
  std::string name;
  /// Empty when the machine has it; otherwise why not.
  std::function<std::string(const Machine&)> unavailable;
  std::function<std::unique_ptr<Prepared>(const Args&, const Machine&)> prepare;
};

/// What a stage says about an operation.
template <class Args>
struct OperationSpec {
  std::string stage;
  std::string name;
  std::string oracle;       ///< in words: "product in double, every element"
  std::string error_bound;  ///< in words or as formula
  int ranks = 1;            ///< as in Operation; Args then holds what all ranks need
  bool on_host = false;     ///< as in Operation
  std::vector<Case> cases;
  /// Makes case `case_index`; `seed` decides the inputs' values.
  std::function<std::unique_ptr<Problem<Args>>(std::size_t case_index, const Machine&,
                                               std::uint64_t seed)>
      make_problem;
  std::vector<PeerRung<Args>> peers;
};

/// Bytes of inputs a timing run on a GPU goes round before it meets the same buffer again: four
/// times an H200's L2.
inline constexpr double kRotationBytes = 240e6;
/// How many objects of a case with `bytes_per_set` bytes that takes (1 on the emulator and for host
/// operations).
int rotation_sets(double bytes_per_set, const Machine& machine) noexcept;

namespace detail {

/// Problem<Args> and its contenders without the type. Contenders are the rungs, then the peers.
class AnyProblem {
 public:
  virtual ~AnyProblem() = default;
  virtual Support supports(std::size_t rung, const Machine& machine) = 0;
  virtual std::unique_ptr<Prepared> prepare(std::size_t contender, const Machine& machine) = 0;
  virtual void reset() = 0;
  virtual std::vector<float> output() = 0;
  virtual Reference reference() = 0;
  virtual double bound(std::size_t element) = 0;
  virtual std::string describe(std::size_t element) = 0;
};

using MakeProblem = std::function<std::unique_ptr<AnyProblem>(std::size_t case_index,
                                                              const Machine&, std::uint64_t seed)>;

/// Fills in supports, trial, run and the peers' functions.
Operation assemble(Operation operation, MakeProblem make_problem);

template <class Args>
struct Contenders {
  std::vector<Rung<Args>> rungs;
  OperationSpec<Args> spec;
};

template <class Args>
class TypedProblem final : public AnyProblem {
 public:
  TypedProblem(std::shared_ptr<const Contenders<Args>> contenders,
               std::unique_ptr<Problem<Args>> problem)
      : contenders_(std::move(contenders)),
        problem_(std::move(problem)) {}
  Support supports(std::size_t rung, const Machine& machine) override {
    return contenders_->rungs.at(rung).supports(problem_->args(), machine);
  }
  std::unique_ptr<Prepared> prepare(std::size_t contender, const Machine& machine) override {
    const std::size_t rungs = contenders_->rungs.size();
    if (contender < rungs) return contenders_->rungs[contender].prepare(problem_->args(), machine);
    return contenders_->spec.peers.at(contender - rungs).prepare(problem_->args(), machine);
  }
  void reset() override { problem_->reset(); }
  std::vector<float> output() override { return problem_->output(); }
  Reference reference() override { return problem_->reference(); }
  double bound(std::size_t element) override { return problem_->bound(element); }
  std::string describe(std::size_t element) override { return problem_->describe(element); }

 private:
  std::shared_ptr<const Contenders<Args>> contenders_;
  std::unique_ptr<Problem<Args>> problem_;
};

}  // namespace detail

/// Builds the Operation. Rungs are copied; the naive one must come first.
/// @note An Operation keeps the case it ran last: going through rungs case by case computes each
///       oracle and each naive output once.
template <class Args>
Operation make_operation(std::span<const Rung<Args>> ladder, OperationSpec<Args> spec) {
  Operation operation;
  operation.stage = spec.stage;
  operation.name = spec.name;
  operation.cases = spec.cases;
  operation.ranks = spec.ranks;
  operation.on_host = spec.on_host;
  operation.oracle = spec.oracle;
  operation.error_bound = spec.error_bound;
  for (const Rung<Args>& rung : ladder) {
    operation.rungs.push_back({std::string(rung.name), std::string(rung.adds)});
  }
  for (const PeerRung<Args>& peer : spec.peers) {
    Peer& added = operation.peers.emplace_back();
    added.name = peer.name;
    added.unavailable = peer.unavailable;
  }
  auto contenders = std::make_shared<const detail::Contenders<Args>>(
      detail::Contenders<Args>{{ladder.begin(), ladder.end()}, std::move(spec)});
  return detail::assemble(
      std::move(operation),
      [contenders](std::size_t case_index, const Machine& machine, std::uint64_t seed) {
        return std::make_unique<detail::TypedProblem<Args>>(
            contenders, contenders->spec.make_problem(case_index, machine, seed));
      });
}

/// The same for a ladder that is an array, as stages declare theirs.
template <class Args, std::size_t N>
Operation make_operation(const std::array<Rung<Args>, N>& ladder, OperationSpec<Args> spec) {
  return make_operation(std::span<const Rung<Args>>(ladder), std::move(spec));
}

}  // namespace rungs::ladder
