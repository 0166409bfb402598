/// The one-shot kernel where its 32-bit flags come again: two ranks on one device whose links are
/// built by hand, so that their steps can be set.

#include <rungs/collectives/kernel_args.hpp>
#include <rungs/gpu/buffer.hpp>
#include <rungs/gpu/launch.hpp>
#include <rungs/gpu/stream.hpp>
#include <rungs/symmetric/kernel_table.hpp>
#include <rungs/testing/gpu_test.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace rungs::symmetric {
namespace {

using collectives::DeviceCommunicator;
using collectives::kSlots;
using collectives::LinkSide;

collectives::KernelEntry entry() {
  for (const collectives::KernelEntry& candidate : kernel_table()) {
    if (candidate.algorithm == "one_shot" && candidate.dtype == DType::kF32 &&
        candidate.op == collectives::Op::kSum)
      return candidate;
  }
  RUNGS_THROW(kInternal, "the table has no one_shot for f32 sums");
}

struct Control {
  alignas(128) std::uint32_t abort;
  alignas(128) gpu::Fault fault;
};

/// Words of a rank, each in a cache line of its own.
enum Word { kSendStep = 0, kRecvStep = 16, kHead = 32, kTail = 48, kWords = 64 };

struct End {
  explicit End(const gpu::Device& device)
      : stream(device),
        slots(device, kSlots * entry().slot_bytes),
        words(device, kWords),
        sides(device, 4),
        claim(device, 1),
        communicator(device, 1),
        control(device, 1, gpu::Space::kHostMapped),
        send(device, kMost),
        recv(device, kMost) {}
  static constexpr std::size_t kMost = 16 << 10;
  gpu::Stream stream;
  gpu::Buffer<std::byte> slots;  // what this rank receives
  gpu::Buffer<std::uint64_t> words;
  gpu::Buffer<LinkSide> sides;
  gpu::Buffer<std::uint32_t> claim;
  gpu::Buffer<DeviceCommunicator> communicator;
  gpu::Buffer<Control> control;
  gpu::Buffer<float> send, recv;
};

class Pair {
 public:
  explicit Pair(const gpu::Device& device) : ends_{End(device), End(device)} {
    for (int rank = 0; rank < 2; ++rank) {
      End& me = end(rank);
      End& peer = end(1 - rank);
      const auto buffer = static_cast<int>(collectives::ProtocolId::kSymmetric);
      std::array<LinkSide, 4> sides{};  // send to 0, 1; recv from 0, 1
      LinkSide& send = sides[static_cast<std::size_t>(1 - rank)];
      LinkSide& recv = sides[static_cast<std::size_t>(3 - rank)];
      send = {{}, peer.words.data() + kTail, me.words.data() + kHead, me.words.data() + kSendStep};
      recv = {{}, me.words.data() + kTail, peer.words.data() + kHead, me.words.data() + kRecvStep};
      send.buffer[buffer] = peer.slots.data();
      recv.buffer[buffer] = me.slots.data();
      me.sides.upload(sides, me.stream);
      std::memset(me.control.data(), 0, sizeof(Control));
      DeviceCommunicator communicator{};
      communicator.rank = rank;
      communicator.size = 2;
      communicator.channels = 1;
      communicator.send = me.sides.data();
      communicator.recv = me.sides.data() + 2;
      communicator.slot_bytes[buffer] = static_cast<std::uint32_t>(entry().slot_bytes);
      communicator.abort = &me.control.data()->abort;
      communicator.claim = me.claim.data();
      communicator.fault = &me.control.data()->fault;
      communicator.timeout_ns = static_cast<std::uint64_t>(0.3e9 * timeout_scale());
      me.communicator.upload({&communicator, 1}, me.stream);
      gpu::fill_async(me.claim.data(), 0, me.claim.size_bytes(), me.stream);
      gpu::fill_async(me.slots.data(), 0, me.slots.size_bytes(), me.stream);
      gpu::synchronize(me.stream);
    }
  }
  End& end(int rank) { return ends_[static_cast<std::size_t>(rank)]; }

  /// The next step of both links.
  void set_step(std::uint64_t step) {
    for (End& each : ends_)
      each.words.upload(std::vector<std::uint64_t>(kWords, step), each.stream);
  }
  void launch(int rank, std::size_t count) {
    End& me = end(rank);
    me.send.upload(std::vector<float>(End::kMost, static_cast<float>(rank + 1)), me.stream);
    gpu::fill_async(me.recv.data(), 0xff, me.recv.size_bytes(), me.stream);
    gpu::synchronize(me.stream);
    launched_[static_cast<std::size_t>(rank)] = count;
  }
  /// Runs what was launched; how many elements hold the sum.
  void run() {
    const collectives::KernelEntry kernel = entry();
    for (int rank = 0; rank < 2; ++rank) {
      const std::size_t count = launched_[static_cast<std::size_t>(rank)];
      if (count == 0) continue;
      End& me = end(rank);
      collectives::KernelArgs args{};
      args.communicator = me.communicator.data();
      args.send = me.send.data();
      args.recv = me.recv.data();
      args.count = count;
      args.channels = 1;
      args.what = collectives::Collective::kAllReduce;
      gpu::launch("one_shot", {.grid = {1}, .block = {kernel.threads}}, me.stream, kernel.kernel,
                  args);
    }
    for (End& each : ends_) gpu::synchronize(each.stream);
    launched_ = {};
  }
  /// Elements of the result that were written.
  std::size_t written(int rank) {
    std::size_t count = 0;
    for (const float value : end(rank).recv.download(end(rank).stream)) count += !std::isnan(value);
    return count;
  }

 private:
  std::array<End, 2> ends_;
  std::array<std::size_t, 2> launched_{};
};

// Long messages fill whole slots; then short ones go through the steps before 2^31, in which slots
// are wiped; 2^32 steps later, when the flags of the long ones come again, nobody has sent.
TEST(OneShotFlags, NoLineOutlivesTheirRound) {
  RUNGS_NEEDS_DEVICE();
  const gpu::Device device = gpu::Device::open(0);
  Pair pair(device);
  const std::size_t slot = entry().payload_bytes / sizeof(float);
  ASSERT_LE(slot, End::kMost);
  const std::uint64_t first = (std::uint64_t{1} << 31) - 20;
  pair.set_step(first);
  for (std::uint64_t step = first; step < first + 22; ++step) {
    const std::size_t count = step < first + kSlots ? slot : 3;
    pair.launch(0, count);
    pair.launch(1, count);
    pair.run();
    for (int rank = 0; rank < 2; ++rank) {
      ASSERT_EQ(pair.end(rank).control.data()->fault.set, 0u) << "step " << step;
      ASSERT_EQ(pair.written(rank), count) << "step " << step;
      ASSERT_EQ(pair.end(rank).recv.download(pair.end(rank).stream)[count - 1], 3.0f);
    }
  }
  // A round later: rank 1 sends nothing.
  pair.set_step(first + (std::uint64_t{1} << 32));
  pair.launch(0, slot);
  pair.run();
  EXPECT_EQ(pair.written(0), 0u) << "lines of the round before were taken for new";
  EXPECT_EQ(pair.end(0).control.data()->fault.set, 2u);
  EXPECT_EQ(pair.end(0).control.data()->fault.peer, 1);
}

}  // namespace
}  // namespace rungs::symmetric
