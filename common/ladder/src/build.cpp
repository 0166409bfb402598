#include "check.hpp"

#include <rungs/core/error.hpp>
#include <rungs/gpu/graph.hpp>
#include <rungs/gpu/stream.hpp>
#include <rungs/ladder/build.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

namespace rungs::ladder {

int rotation_sets(double bytes_per_set, const Machine& machine) noexcept {
  if (machine.device == nullptr || machine.device->info().emulated) return 1;
  constexpr double kMostSets = 64;
  const double sets = std::ceil(kRotationBytes / std::max(bytes_per_set, 1.0)) + 1;
  return static_cast<int>(std::clamp(sets, 2.0, kMostSets));
}

namespace detail {
namespace {

// The seed of the checked inputs; the others of a rotation count up from it.
constexpr std::uint64_t kSeed = 20261130;

// A run that takes longer than this gains nothing from the L2 being warm.
constexpr double kLongRunSeconds = 0.05;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool is_emulated(const Machine& machine) {
  return machine.device == nullptr || machine.device->info().emulated;
}

// One case with its inputs, the oracle's answer and the naive rung's output: made once, used by
// every contender.
class Session {
 public:
  Session(std::size_t case_index, const Machine& machine, const MakeProblem& make)
      : case_index_(case_index),
        machine_(machine),
        make_(make) {
    problems_.push_back(make_(case_index_, machine_, kSeed));
    if (machine_.device != nullptr) stream_.emplace(*machine_.device);
  }

  bool serves(std::size_t case_index, const Machine& machine) const {
    const auto ordinal = [](const Machine& m) {
      return m.device == nullptr ? -1 : m.device->ordinal();
    };
    return case_index == case_index_ && ordinal(machine) == ordinal(machine_);
  }

  AnyProblem& problem() { return *problems_.front(); }
  const Machine& machine() const { return machine_; }
  gpu::StreamHandle stream() const { return stream_ ? stream_->get() : nullptr; }

  // Set `index` of the rotation. Its inputs are made at first use: a test never pays for them.
  AnyProblem& rotated(int index) {
    while (problems_.size() <= static_cast<std::size_t>(index)) {
      problems_.push_back(make_(case_index_, machine_, kSeed + problems_.size()));
    }
    return *problems_[static_cast<std::size_t>(index)];
  }

  void wait() const {
    if (stream_) stream_->synchronize();
  }

  // Poisons, runs once on the first set and brings the output back.
  std::vector<float> run_once(Prepared& prepared, double& seconds) {
    problem().reset();
    if (machine_.device != nullptr) machine_.device->synchronize();
    const Clock::time_point start = Clock::now();
    prepared(stream());
    wait();
    seconds = seconds_since(start);
    return problem().output();
  }

  const Reference& reference() {
    if (!reference_) reference_ = problem().reference();
    return *reference_;
  }

  // The naive rung's output if that rung serves the case and passes its own check; nothing
  // otherwise.
  const std::vector<float>* naive_output() {
    if (!naive_tried_) {
      naive_tried_ = true;
      try {
        if (problem().supports(0, machine_).ok) {
          const std::unique_ptr<Prepared> prepared = problem().prepare(0, machine_);
          double unused = 0;
          std::vector<float> output = run_once(*prepared, unused);
          if (compare_with_reference(output, reference(), problem()).mismatch.empty()) {
            naive_ = std::move(output);
          }
        }
      } catch (const Error&) {
        // The naive rung's own row reports it; this contender is still judged by the oracle, on a
        // device that is well again.
        naive_.reset();
        if (machine_.device != nullptr) gpu::detail::reset_error_for_tests(*machine_.device);
      }
    }
    return naive_ ? &*naive_ : nullptr;
  }
  void keep_naive(std::vector<float> output) {
    naive_tried_ = true;
    naive_ = std::move(output);
  }

 private:
  std::size_t case_index_;
  Machine machine_;
  MakeProblem make_;
  std::vector<std::unique_ptr<AnyProblem>> problems_;
  std::optional<gpu::Stream> stream_;
  std::optional<Reference> reference_;
  std::optional<std::vector<float>> naive_;
  bool naive_tried_ = false;
};

// What all copies of one Operation share. It keeps the last case only: a case may fill the GPU.
struct Shared {
  MakeProblem make;
  std::vector<Case> cases;
  bool on_host = false;  // timed by the host's clock, or by itself
  std::shared_ptr<Session> last;
  std::string failure;  // text behind the last Support::reason that was not static

  std::shared_ptr<Session> session(std::size_t case_index, const Machine& machine) {
    if (last == nullptr || !last->serves(case_index, machine)) {
      last.reset();
      last = std::make_shared<Session>(case_index, machine, make);
    }
    return last;
  }
};

class TrialOfOne final : public Trial {
 public:
  TrialOfOne(Shared& shared, std::size_t contender, std::size_t case_index, const Machine& machine)
      : contender_(contender) {
    try {
      bytes_ = shared.cases.at(case_index).cost.bytes;
      host_clock_ = shared.on_host || is_emulated(machine);
      session_ = shared.session(case_index, machine);
      check();
    } catch (const std::exception& error) {
      const auto* ours = dynamic_cast<const Error*>(&error);
      // An emulated kernel that failed must not fail the rungs after it. (A real one ends the
      // context: then every later rung says so.)
      if (machine.device != nullptr) gpu::detail::reset_error_for_tests(*machine.device);
      outcome_.checked = false;
      outcome_.note = ours != nullptr ? ours->message() : error.what();
    }
  }

  const Outcome& outcome() const noexcept override { return outcome_; }

  double time_once() override {
    RUNGS_REQUIRE(outcome_.checked, "this run failed its check and is not timed: ", outcome_.note);
    if (const std::optional<double> measured = prepared_.front()->time_once()) return *measured;
    return host_clock_ ? time_on_host() : time_on_gpu();
  }

 private:
  void check() {
    AnyProblem& problem = session_->problem();
    prepared_.push_back(problem.prepare(contender_, session_->machine()));
    std::vector<float> output = session_->run_once(*prepared_.front(), outcome_.check_seconds);
    const Verdict verdict = compare_with_reference(output, session_->reference(), problem);
    outcome_.error = verdict.worst;
    outcome_.bound = 1;
    outcome_.note = verdict.mismatch;
    if (!verdict.mismatch.empty()) return;
    if (contender_ == 0) {
      session_->keep_naive(std::move(output));
    } else if (const std::vector<float>* naive = session_->naive_output(); naive != nullptr) {
      outcome_.note = compare_with_naive(output, *naive, problem).mismatch;
      if (!outcome_.note.empty()) return;
    }
    outcome_.checked = true;
    // The first run may have loaded code or a library, which takes less than two seconds.
    if (outcome_.check_seconds > kLongRunSeconds && outcome_.check_seconds < 2) {
      outcome_.check_seconds = std::min(outcome_.check_seconds, time_on_host());
    }
  }

  // The check was the warm-up: its run touched the same code and data.
  double time_on_host() {
    session_->wait();
    const Clock::time_point start = Clock::now();
    (*prepared_.front())(session_->stream());
    session_->wait();
    return seconds_since(start);
  }

  // One replay runs every set once, so a launch's cost on the CPU stays outside and the L2 holds
  // none of the inputs.
  double time_on_gpu() {
    const gpu::StreamHandle stream = session_->stream();
    if (!graph_) {
      const bool is_long = outcome_.check_seconds > kLongRunSeconds;
      const int sets = is_long ? 1 : rotation_sets(bytes_, session_->machine());
      for (int i = 1; i < sets; ++i) {
        AnyProblem& problem = session_->rotated(i);
        problem.reset();
        prepared_.push_back(problem.prepare(contender_, session_->machine()));
      }
      session_->machine().device->synchronize();
      graph_ = gpu::Graph::capture(stream, [&] {
        for (const auto& prepared : prepared_) (*prepared)(stream);
      });
      begin_.emplace(*session_->machine().device);
      end_.emplace(*session_->machine().device);
      if (!is_long) graph_->replay(stream);  // warm-up
      session_->wait();
    }
    begin_->record(stream);
    graph_->replay(stream);
    end_->record(stream);
    end_->synchronize();
    return end_->seconds_since(*begin_) / static_cast<double>(prepared_.size());
  }

  std::size_t contender_;
  double bytes_ = 0;
  bool host_clock_ = false;
  Outcome outcome_;
  std::shared_ptr<Session> session_;
  std::vector<std::unique_ptr<Prepared>>
      prepared_;  // one a set of the rotation; goes before the session
  std::optional<gpu::Graph> graph_;
  std::optional<gpu::Event> begin_, end_;
};

Outcome check_and_time(Trial& trial, int repetitions) {
  Outcome outcome = trial.outcome();
  try {
    for (int i = 0; outcome.checked && i < repetitions; ++i) {
      outcome.seconds.push_back(trial.time_once());
    }
  } catch (const std::exception& error) {
    outcome.seconds.clear();
    outcome.note = concat("checked, but failed while being timed: ", error.what());
  }
  return outcome;
}

}  // namespace

Operation assemble(Operation operation, MakeProblem make_problem) {
  RUNGS_REQUIRE(!operation.rungs.empty(), "operation ", operation.name, " has no rung");
  RUNGS_REQUIRE(operation.ranks >= 1, "operation ", operation.name, " has ", operation.ranks,
                " ranks; at least 1 is needed");
  auto shared = std::make_shared<Shared>();
  shared->make = std::move(make_problem);
  shared->cases = operation.cases;
  shared->on_host = operation.on_host || operation.ranks > 1;

  operation.supports = [shared](std::size_t rung, std::size_t case_index, const Machine& machine) {
    if (shared->cases.at(case_index).gpu_only && is_emulated(machine)) {
      return Support{false, "this case is too large for the emulator"};
    }
    try {
      return shared->session(case_index, machine)->problem().supports(rung, machine);
    } catch (const Error& error) {
      shared->failure = error.message();
      return Support{false, shared->failure};
    }
  };
  operation.trial = [shared](std::size_t rung, std::size_t case_index, const Machine& machine) {
    return std::unique_ptr<Trial>(new TrialOfOne(*shared, rung, case_index, machine));
  };
  operation.run = [trial = operation.trial](std::size_t rung, std::size_t case_index,
                                            const Machine& machine, int repetitions) {
    return check_and_time(*trial(rung, case_index, machine), repetitions);
  };
  for (std::size_t i = 0; i < operation.peers.size(); ++i) {
    Peer& peer = operation.peers[i];
    const std::size_t contender = operation.rungs.size() + i;
    peer.trial = [shared, contender](std::size_t case_index, const Machine& machine) {
      return std::unique_ptr<Trial>(new TrialOfOne(*shared, contender, case_index, machine));
    };
    peer.run = [trial = peer.trial](std::size_t case_index, const Machine& machine,
                                    int repetitions) {
      return check_and_time(*trial(case_index, machine), repetitions);
    };
  }
  return operation;
}

}  // namespace detail
}  // namespace rungs::ladder
