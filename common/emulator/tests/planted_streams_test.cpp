// Bugs planted around streams, events and graphs: what may run when, and with which parameters.

#include "planted.hpp"

#include <rungs/core/error.hpp>
#include <rungs/gpu/buffer.hpp>
#include <rungs/gpu/graph.hpp>
#include <rungs/gpu/kernel.hpp>
#include <rungs/gpu/launch.hpp>
#include <rungs/gpu/stream.hpp>
#include <rungs/ptx/dependent.hpp>
#include <rungs/ptx/sync.hpp>

namespace rungs::emulator::testing {
namespace {

using rungs::testing::planted;
using Words = std::vector<std::uint32_t>;

constexpr unsigned kCount = 64;

// Takes its time, so that who does not wait for it comes first.
RUNGS_KERNEL(64) fill_slowly(std::uint32_t* out, std::uint32_t value) {
  const std::uint64_t end = ptx::globaltimer_ns() + 30'000'000;
  while (ptx::globaltimer_ns() < end) ptx::nanosleep(1000);
  out[threadIdx.x] = value + threadIdx.x;
}
RUNGS_KERNEL(64) add_one(const std::uint32_t* in, std::uint32_t* out) {
  out[threadIdx.x] = in[threadIdx.x] + 1;
}

constexpr gpu::LaunchConfig kOneBlock{.grid = {1}, .block = {kCount}};

enum class Bug {
  kNone,
  kNoEvent,           // the second stream does not wait for the first
  kRecordedTooEarly,  // the event stands before the launch it should follow
  kNoJoin,            // a captured fork that is not joined
  kForkNotCaptured,   // the other stream was never forked: what it runs is not in the graph
  kParameterByValue,  // a captured parameter that should change from replay to replay
};

/// Fills `a` on one stream, makes `b` of it on another.
template <Bug kBug>
Trial two_streams() {
  return [] {
    const gpu::Device device = gpu::Device::open(0);
    device.make_current();
    gpu::Buffer<std::uint32_t> a(device, kCount), b(device, kCount);
    a.upload(Words(kCount, 0));
    b.upload(Words(kCount, 0));
    const gpu::Stream first(device), second(device);
    gpu::Event filled(device);
    if (kBug == Bug::kRecordedTooEarly) filled.record(first);
    gpu::launch("kernel_under_test", kOneBlock, first, fill_slowly, a.data(), 100u);
    if (kBug != Bug::kRecordedTooEarly) filled.record(first);
    if (kBug != Bug::kNoEvent) filled.wait_on(second);
    const std::uint32_t* in = a.data();
    gpu::launch("kernel_under_test", kOneBlock, second, add_one, in, b.data());
    const Words result = b.download(second);
    first.synchronize();
    second.synchronize();
    Outcome outcome;
    outcome.right = true;
    for (unsigned i = 0; i < kCount; i++) outcome.right = outcome.right && result[i] == 101 + i;
    return outcome;
  };
}

Trial copy_without_waiting() {
  return [] {
    const gpu::Device device = gpu::Device::open(0);
    device.make_current();
    gpu::Buffer<std::uint32_t> a(device, kCount);
    a.upload(Words(kCount, 0));
    const gpu::Stream first(device), second(device);
    gpu::launch("kernel_under_test", kOneBlock, first, fill_slowly, a.data(), 100u);
    const Words result = a.download(second);
    first.synchronize();
    return Outcome{"", result[0] == 100};
  };
}

/// Captures: fill `a`; on a forked stream make `b` of it. Replays twice, with a step to count.
template <Bug kBug>
Trial graph() {
  return [] {
    const gpu::Device device = gpu::Device::open(0);
    device.make_current();
    gpu::Buffer<std::uint32_t> a(device, kCount), b(device, kCount), step(device, kCount);
    for (auto* buffer : {&a, &b, &step}) buffer->upload(Words(kCount, 0));
    const gpu::Stream stream(device), side(device);
    gpu::Event fork(device, gpu::Timing::kNone), join(device, gpu::Timing::kNone);
    Outcome outcome;
    try {
      std::uint32_t value = 1;
      const gpu::Graph captured = gpu::Graph::capture(stream, [&] {
        gpu::launch("kernel_under_test", kOneBlock, stream, fill_slowly, a.data(), 100u);
        if (kBug != Bug::kForkNotCaptured) {
          fork.record(stream);
          fork.wait_on(side);
        }
        const std::uint32_t* in = a.data();
        gpu::launch("kernel_under_test", kOneBlock, side, add_one, in, b.data());
        if (kBug != Bug::kNoJoin && kBug != Bug::kForkNotCaptured) {
          join.record(side);
          join.wait_on(stream);
        }
        if (kBug == Bug::kParameterByValue) {
          gpu::launch("kernel_under_test", kOneBlock, stream, fill_slowly, step.data(), value);
        } else {
          const std::uint32_t* before = step.data();
          gpu::launch("kernel_under_test", kOneBlock, stream, add_one, before, step.data());
        }
      });
      for (; value <= 2; value++) captured.replay(stream);
      stream.synchronize();
      side.synchronize();
    } catch (const Error& error) {
      outcome.report = error.message();
      return outcome;
    }
    const Words made = b.download(), steps = step.download();
    outcome.right = steps[0] == 2;
    for (unsigned i = 0; i < kCount; i++) outcome.right = outcome.right && made[i] == 101 + i;
    return outcome;
  };
}

// The second kernel may start when the first says so; what that one writes comes after its end.
RUNGS_KERNEL(64) fill_late(std::uint32_t* out, std::uint32_t value) {
  ptx::launch_dependents();
  const std::uint64_t end = ptx::globaltimer_ns() + 30'000'000;
  while (ptx::globaltimer_ns() < end) ptx::nanosleep(1000);
  out[threadIdx.x] = value + threadIdx.x;
}
template <bool kWaits>
RUNGS_KERNEL(64)
add_one_dependent(const std::uint32_t* in, std::uint32_t* out) {
  if (kWaits) ptx::wait_for_prerequisites();
  out[threadIdx.x] = in[threadIdx.x] + 1;
}

template <bool kWaits>
Trial dependent_launch() {
  return [] {
    const gpu::Device device = gpu::Device::open(0);
    device.make_current();
    gpu::Buffer<std::uint32_t> a(device, kCount), b(device, kCount);
    for (auto* buffer : {&a, &b}) buffer->upload(Words(kCount, 0));
    const gpu::Stream stream(device);
    gpu::launch("kernel_under_test", kOneBlock, stream, fill_late, a.data(), 100u);
    gpu::LaunchConfig overlapped = kOneBlock;
    overlapped.programmatic = true;
    const std::uint32_t* in = a.data();
    gpu::launch("kernel_under_test", overlapped, stream, add_one_dependent<kWaits>, in, b.data());
    const Words result = b.download(stream);
    Outcome outcome;
    outcome.right = true;
    for (unsigned i = 0; i < kCount; i++) outcome.right = outcome.right && result[i] == 101 + i;
    return outcome;
  };
}

TEST(PlantedStreams, TheSoundDependentLaunchIsRight) { expect_right(dependent_launch<true>()); }
TEST(PlantedStreams, ADependentLaunchThatDoesNotWait) {
  planted("dependent_launch_without_a_wait", "wrong result: the launches overlap");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(dependent_launch<false>(), {});
}
TEST(PlantedStreams, TheSoundStreamsAreRight) { expect_right(two_streams<Bug::kNone>()); }
TEST(PlantedStreams, TheSoundGraphIsRight) { expect_right(graph<Bug::kNone>()); }
TEST(PlantedStreams, TwoStreamsWithoutAnEvent) {
  planted("two_streams_without_an_event", "wrong result: streams run at once");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(two_streams<Bug::kNoEvent>(), {});
}
TEST(PlantedStreams, AnEventRecordedTooEarly) {
  planted("event_recorded_before_the_launch", "wrong result: streams run at once");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(two_streams<Bug::kRecordedTooEarly>(), {});
}
TEST(PlantedStreams, ACopyOnAStreamThatDoesNotWait) {
  planted("copy_on_a_stream_that_does_not_wait", "wrong result: streams run at once");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(copy_without_waiting(), {});
}
TEST(PlantedStreams, AForkWithoutAJoin) {
  planted("graph_fork_without_a_join", "refused at the end of the capture");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  const Outcome outcome = graph<Bug::kNoJoin>()();
  EXPECT_NE(outcome.report.find("not joined again"), std::string::npos) << outcome.report;
}
TEST(PlantedStreams, AStreamThatWasNeverForked) {
  planted("graph_stream_never_forked", "wrong result: its kernel ran at the capture, once");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(graph<Bug::kForkNotCaptured>(), {});
}
TEST(PlantedStreams, AParameterThatTheGraphHasKept) {
  planted("graph_keeps_a_parameter", "wrong result of the second replay");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(graph<Bug::kParameterByValue>(), {});
}

}  // namespace
}  // namespace rungs::emulator::testing
