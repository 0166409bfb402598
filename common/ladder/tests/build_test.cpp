#include <rungs/core/error.hpp>
#include <rungs/ladder/build.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>

namespace rungs::ladder {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// The operation of these tests: y = 2x on the host, with rungs that are wrong in known ways.
struct DoubleArgs {
  const std::vector<float>* x = nullptr;
  std::vector<float>* y = nullptr;
};

struct Counts {
  int problems = 0;
  int references = 0;
  int naive_runs = 0;
  int other_runs = 0;
};
Counts counts;  // of the running test

// Runs `body` with the arguments.
class Call final : public Prepared {
 public:
  Call(const DoubleArgs& args, std::function<void(const DoubleArgs&)> body)
      : args_(args),
        body_(std::move(body)) {}
  void operator()(gpu::StreamHandle) override { body_(args_); }

 private:
  DoubleArgs args_;
  std::function<void(const DoubleArgs&)> body_;
};

void twice(const DoubleArgs& args) {
  for (std::size_t i = 0; i < args.x->size(); ++i) (*args.y)[i] = 2 * (*args.x)[i];
}

std::unique_ptr<Prepared> prepare_naive(const DoubleArgs& args, const Machine&) {
  return std::make_unique<Call>(args, [](const DoubleArgs& a) {
    ++counts.naive_runs;
    twice(a);
  });
}

// Twice, and then `change`.
template <class Change>
std::unique_ptr<Prepared> changed(const DoubleArgs& args, Change change) {
  return std::make_unique<Call>(args, [change](const DoubleArgs& a) {
    ++counts.other_runs;
    twice(a);
    change(*a.y);
  });
}

std::unique_ptr<Prepared> prepare_near(const DoubleArgs& args, const Machine&) {
  return changed(args, [](std::vector<float>& y) { y[2] += 0.0625f; });
}
std::unique_ptr<Prepared> prepare_far(const DoubleArgs& args, const Machine&) {
  return changed(args, [](std::vector<float>& y) { y[2] += 0.5f; });
}
std::unique_ptr<Prepared> prepare_gap(const DoubleArgs& args, const Machine&) {
  return changed(args, [](std::vector<float>& y) { y[3] = kNan; });
}
std::unique_ptr<Prepared> prepare_unprepared(const DoubleArgs&, const Machine&) {
  RUNGS_THROW(kUnsupported, "no plan for this");
}
std::unique_ptr<Prepared> prepare_crash(const DoubleArgs& args, const Machine&) {
  return changed(args,
                 [](std::vector<float>&) { throw std::runtime_error("crashed while running"); });
}

Support always(const DoubleArgs&, const Machine&) { return {}; }
Support never(const DoubleArgs&, const Machine&) { return {false, "needs what nobody has"}; }

constexpr std::array<Rung<DoubleArgs>, 7> kRungs{{
    {"naive", "one by one", &always, &prepare_naive},
    {"near", "a little off, within the bound", &always, &prepare_near},
    {"far", "one element outside the bound", &always, &prepare_far},
    {"gap", "one element never written", &always, &prepare_gap},
    {"unprepared", "throws in prepare", &always, &prepare_unprepared},
    {"crash", "throws when run", &always, &prepare_crash},
    {"never", "is not supported", &never, &prepare_naive},
}};
enum : std::size_t { kNaive, kNear, kFar, kGap, kUnprepared, kCrash, kNever };

class DoubleProblem final : public Problem<DoubleArgs> {
 public:
  DoubleProblem(std::size_t count, bool sampled) : x_(count), y_(count), sampled_(sampled) {
    ++counts.problems;
    for (std::size_t i = 0; i < count; ++i) x_[i] = static_cast<float>(i);
  }
  DoubleArgs args() override { return {&x_, &y_}; }
  void reset() override { y_.assign(y_.size(), kNan); }
  std::vector<float> output() override { return y_; }
  Reference reference() override {
    ++counts.references;
    Reference result;
    for (std::size_t i = 0; i < x_.size(); i += sampled_ ? 4 : 1) {
      result.values.push_back(2.0 * x_[i]);
      if (sampled_) result.positions.push_back(i);
    }
    return result;
  }
  double bound(std::size_t) override { return 0.125; }
  std::string describe(std::size_t element) override {
    return "y[" + std::to_string(element) + "]";
  }

 private:
  std::vector<float> x_, y_;
  bool sampled_;
};

Operation make_double() {
  OperationSpec<DoubleArgs> spec;
  spec.stage = "99_test";
  spec.name = "double";
  spec.on_host = true;
  spec.cases = {{"8", {}, true, true, false},
                {"8_sampled", {}, false, false, false},
                {"huge", {}, false, false, true}};
  spec.make_problem = [](std::size_t c, const Machine&,
                         std::uint64_t) -> std::unique_ptr<Problem<DoubleArgs>> {
    if (c == 2) RUNGS_THROW(kInvalidArgument, "this case cannot be made");
    return std::make_unique<DoubleProblem>(8, c == 1);
  };
  PeerRung<DoubleArgs> peer;
  peer.name = "library";
  peer.unavailable = [](const Machine&) { return std::string(); };
  peer.prepare = [](const DoubleArgs& args, const Machine& machine) {
    return prepare_near(args, machine);
  };
  spec.peers.push_back(peer);
  return make_operation(kRungs, std::move(spec));
}

class Build : public ::testing::Test {
 protected:
  void SetUp() override { counts = {}; }
  Operation operation_ = make_double();
  Machine host_;
};

TEST_F(Build, DescriptionIsCopied) {
  EXPECT_EQ(operation_.stage, "99_test");
  ASSERT_EQ(operation_.rungs.size(), kRungs.size());
  EXPECT_EQ(operation_.rungs[1].name, "near");
  EXPECT_EQ(operation_.rungs[1].adds, "a little off, within the bound");
  EXPECT_EQ(operation_.cases.size(), 3u);
  EXPECT_EQ(operation_.peers.at(0).name, "library");
  EXPECT_TRUE(operation_.on_host);
  EXPECT_EQ(counts.problems, 0) << "building an operation must not make inputs";
}

TEST_F(Build, RightRungsAreCheckedAndTimed) {
  const Outcome naive = operation_.run(kNaive, 0, host_, 3);
  EXPECT_TRUE(naive.checked);
  EXPECT_EQ(naive.error, 0);
  EXPECT_EQ(naive.seconds.size(), 3u);
  EXPECT_EQ(naive.note, "");
  const Outcome near = operation_.run(kNear, 0, host_, 2);
  EXPECT_TRUE(near.checked);
  EXPECT_EQ(near.error, 0.5) << "0.0625 of the bound 0.125";
  EXPECT_EQ(near.seconds.size(), 2u);
}

TEST_F(Build, WrongRungsAreNamedAndNeverTimed) {
  const Outcome far = operation_.run(kFar, 0, host_, 5);
  EXPECT_FALSE(far.checked);
  EXPECT_TRUE(far.seconds.empty());
  EXPECT_EQ(far.note, "y[2]: got 4.5, the oracle says 4, allowed difference 0.125");
  EXPECT_EQ(far.error, 4);
  EXPECT_EQ(counts.other_runs, 1) << "it ran for its check and no more";
  const Outcome gap = operation_.run(kGap, 0, host_, 5);
  EXPECT_FALSE(gap.checked);
  EXPECT_EQ(gap.note, "y[3]: got nan, the oracle says 6, allowed difference 0.125");
  EXPECT_TRUE(std::isinf(gap.error));
  const std::unique_ptr<Trial> trial = operation_.trial(kFar, 0, host_);
  EXPECT_THROW(trial->time_once(), Error);
}

TEST_F(Build, ThrowingRungsLeaveTheirText) {
  EXPECT_EQ(operation_.run(kUnprepared, 0, host_, 1).note, "no plan for this");
  const Outcome crash = operation_.run(kCrash, 0, host_, 1);
  EXPECT_FALSE(crash.checked);
  EXPECT_EQ(crash.note, "crashed while running");
  EXPECT_EQ(operation_.run(kNaive, 2, host_, 1).note, "this case cannot be made");
}

TEST_F(Build, SupportIsAsked) {
  EXPECT_TRUE(operation_.supports(kNaive, 0, host_).ok);
  EXPECT_EQ(operation_.supports(kNever, 0, host_).reason, "needs what nobody has");
  EXPECT_EQ(operation_.supports(kNaive, 2, host_).reason,
            "this case is too large for the emulator");
}

// A sample of the oracle sees elements 0 and 4 only: the comparison with the naive rung finds the
// others.
TEST_F(Build, NaiveRungCoversWhatASampleLeavesOut) {
  EXPECT_TRUE(operation_.run(kNear, 1, host_, 0).checked);
  const Outcome far = operation_.run(kFar, 1, host_, 0);
  EXPECT_FALSE(far.checked);
  EXPECT_EQ(far.note, "y[2]: got 4.5, the naive rung says 4, allowed difference 0.25");
  EXPECT_FALSE(operation_.run(kGap, 1, host_, 0).checked);
}

TEST_F(Build, OneCaseIsMadeOnce) {
  for (const std::size_t rung : {kNaive, kNear, kFar}) (void)operation_.run(rung, 0, host_, 0);
  EXPECT_EQ(counts.problems, 1);
  EXPECT_EQ(counts.references, 1);
  EXPECT_EQ(counts.naive_runs, 1);
  const Operation copy = operation_;
  (void)copy.run(kNear, 0, host_, 0);
  EXPECT_EQ(counts.problems, 1) << "copies share the case";
  (void)operation_.run(kNear, 1, host_, 0);
  EXPECT_EQ(counts.problems, 2);
}

TEST_F(Build, PeersAreCheckedAndTimedLikeRungs) {
  const Peer& peer = operation_.peers.at(0);
  EXPECT_EQ(peer.unavailable(host_), "");
  const Outcome outcome = peer.run(0, host_, 4);
  EXPECT_TRUE(outcome.checked);
  EXPECT_EQ(outcome.seconds.size(), 4u);
  EXPECT_GT(peer.trial(0, host_)->time_once(), 0);
}

TEST_F(Build, TrialsOutliveOneAnother) {
  const std::unique_ptr<Trial> first = operation_.trial(kNear, 0, host_);
  const std::unique_ptr<Trial> other = operation_.trial(kNaive, 1, host_);
  EXPECT_GE(first->time_once(), 0) << "the first trial keeps its case alive";
  EXPECT_GE(other->time_once(), 0);
}

TEST(BuildErrors, OperationsNeedARungAndOneRank) {
  OperationSpec<DoubleArgs> spec;
  EXPECT_THROW(make_operation(std::span<const Rung<DoubleArgs>>(), std::move(spec)), Error);
}

}  // namespace
}  // namespace rungs::ladder
