// The fault knobs over a wire that records: shares, order, repeatability, and that nothing is held
// for ever.

#include "soft/wire.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace rungs::verbs::soft {
namespace {

using namespace std::chrono_literals;

// What went over the wire, by the packets' first 8 bytes.
struct Record {
  std::vector<std::uint64_t> packets;
  bool full = false;
  double waited_for = -1;
};

class RecordingWire final : public PacketWire {
 public:
  explicit RecordingWire(Record& record) : record_(record) {}
  WireAddress local() const override { return {}; }
  bool send(const WireAddress&, std::span<const std::byte> packet) override {
    if (record_.full) return false;
    std::uint64_t index;
    std::memcpy(&index, packet.data(), sizeof(index));
    record_.packets.push_back(index);
    return true;
  }
  std::size_t receive(std::span<std::byte>, WireAddress&) override { return 0; }
  void wait(double seconds) override { record_.waited_for = seconds; }
  void wake() noexcept override {}

 private:
  Record& record_;
};

bool send(PacketWire& wire, std::uint64_t index) {
  std::vector<std::byte> packet(64);
  std::memcpy(packet.data(), &index, sizeof(index));
  return wire.send({}, packet);
}

std::vector<std::uint64_t> run(const SoftOptions& options, std::uint64_t count,
                               std::uint64_t* dropped) {
  Record record;
  {
    const auto wire = with_faults(std::make_unique<RecordingWire>(record), options, dropped);
    for (std::uint64_t i = 0; i < count; ++i) EXPECT_TRUE(send(*wire, i));
  }
  return record.packets;
}

TEST(Faults, WithoutAKnobTheWireIsUntouched) {
  Record record;
  auto wire = std::make_unique<RecordingWire>(record);
  const PacketWire* const before = wire.get();
  std::uint64_t dropped = 0;
  EXPECT_EQ(with_faults(std::move(wire), SoftOptions{}, &dropped).get(), before);
}

TEST(Faults, LossIsCountedAndHasItsShare) {
  SoftOptions options;
  options.loss = 0.01;
  std::uint64_t dropped = 0;
  constexpr std::uint64_t kPackets = 100000;
  const auto packets = run(options, kPackets, &dropped);
  EXPECT_EQ(packets.size() + dropped, kPackets);
  // Binomial: mean 1000, standard deviation 31.5; six of them.
  EXPECT_NEAR(static_cast<double>(dropped), 1000, 189);
  for (std::size_t i = 1; i < packets.size(); ++i) ASSERT_LT(packets[i - 1], packets[i]);
}

// Without reordering, which has a time limit: a slow machine releases a packet sooner.
TEST(Faults, ASeedIsARunAndAnotherSeedAnotherRun) {
  SoftOptions options;
  options.loss = 0.1;
  options.duplicate = 0.1;
  std::uint64_t dropped = 0;
  const auto first = run(options, 1000, &dropped);
  EXPECT_EQ(run(options, 1000, &dropped), first);
  options.seed = 2;
  EXPECT_NE(run(options, 1000, &dropped), first);
}

TEST(Faults, ADuplicateFollowsItsOriginal) {
  SoftOptions options;
  options.duplicate = 0.25;
  std::uint64_t dropped = 0;
  const auto packets = run(options, 10000, &dropped);
  EXPECT_EQ(dropped, 0u);
  // Mean 2500, standard deviation 43.3; six of them.
  EXPECT_NEAR(static_cast<double>(packets.size()), 12500, 260);
  for (std::size_t i = 1; i < packets.size(); ++i) ASSERT_LE(packets[i - 1], packets[i]);
}

TEST(Faults, AReorderedPacketGoesBehindTheNextOne) {
  SoftOptions options;
  options.reorder = 0.2;
  std::uint64_t dropped = 0;
  const auto packets = run(options, 10000, &dropped);
  ASSERT_EQ(packets.size(), 10000u);
  std::size_t swapped = 0;
  for (std::size_t i = 0; i < packets.size(); ++i) {
    if (packets[i] == i) continue;
    ASSERT_LT(i + 1, packets.size());
    ASSERT_EQ(packets[i], i + 1);
    ASSERT_EQ(packets[i + 1], i);
    ++swapped;
    ++i;
  }
  // A draw that falls on the packet that overtakes has no effect: 0.2 / 1.2 of all pairs.
  EXPECT_NEAR(static_cast<double>(swapped), 10000 * 0.2 / 1.2, 250);
}

TEST(Faults, AHeldPacketGoesWithoutASuccessor) {
  SoftOptions options;
  options.reorder = 1;
  Record record;
  std::uint64_t dropped = 0;
  const auto wire = with_faults(std::make_unique<RecordingWire>(record), options, &dropped);
  EXPECT_TRUE(send(*wire, 7));
  EXPECT_TRUE(record.packets.empty());
  wire->wait(10);
  EXPECT_LE(record.waited_for, 0.001) << "it must wake for the packet it holds";
  std::this_thread::sleep_for(2ms);
  wire->wait(0);
  EXPECT_EQ(record.packets, (std::vector<std::uint64_t>{7}));
}

TEST(Faults, DelayedPacketsKeepTheirOrderAndTime) {
  SoftOptions options;
  options.delay_seconds = 0.02;
  Record record;
  std::uint64_t dropped = 0;
  const auto wire = with_faults(std::make_unique<RecordingWire>(record), options, &dropped);
  const auto start = std::chrono::steady_clock::now();
  for (std::uint64_t i = 0; i < 5; ++i) EXPECT_TRUE(send(*wire, i));
  std::vector<std::byte> into(64);
  WireAddress from;
  while (record.packets.size() < 5) {
    wire->receive(into, from);
    if (!record.packets.empty()) {
      ASSERT_GE(std::chrono::steady_clock::now() - start, 20ms);
    }
    ASSERT_LT(std::chrono::steady_clock::now() - start, 20s);
  }
  EXPECT_EQ(record.packets, (std::vector<std::uint64_t>{0, 1, 2, 3, 4}));
}

TEST(Faults, AFullWireFillsABoundedQueueThatLosesNothing) {
  SoftOptions options;
  options.duplicate = 1e-9;  // any knob
  Record record;
  record.full = true;
  std::uint64_t dropped = 0;
  const auto wire = with_faults(std::make_unique<RecordingWire>(record), options, &dropped);
  std::uint64_t sent = 0;
  while (send(*wire, sent)) {
    ++sent;
    ASSERT_LT(sent, 1000000u) << "the queue has no bound";
  }
  EXPECT_GT(sent, 0u);
  record.full = false;
  wire->wait(0);
  ASSERT_EQ(record.packets.size(), sent);
  for (std::uint64_t i = 0; i < sent; ++i) EXPECT_EQ(record.packets[i], i);
}

}  // namespace
}  // namespace rungs::verbs::soft
