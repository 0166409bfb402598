// What only the emulated device has: its settings, its allocator, red zones, its own children.

#include "emulated/range_allocator.hpp"
#include "fixture.hpp"
#include "kernels.hpp"

#include <rungs/gpu/graph.hpp>
#include <rungs/testing/ranks.hpp>
#include <rungs/testing/scoped_env.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <thread>

namespace rungs::gpu::test {
namespace {

TEST(EmulatedSettings, AreCheckedAndUsed) {
  {
    const testing::ScopedEnv setting("RUNGS_EMULATED_DEVICES", "eight");
    const std::string error = error_of([] { (void)Device::count(); });
    expect_contains(error, "InvalidArgument: ");
    expect_contains(error, "RUNGS_EMULATED_DEVICES");
    expect_contains(error, "eight");
  }
  // Devices that no other test opens: settings are read when a device is made.
  const testing::ScopedEnv devices("RUNGS_EMULATED_DEVICES", "32");
  EXPECT_EQ(Device::count(), 32);
  {
    const testing::ScopedEnv sms("RUNGS_EMULATED_SMS", "7");
    const testing::ScopedEnv memory("RUNGS_EMULATED_MEMORY_MIB", "3");
    const Device device = Device::open(30);
    EXPECT_EQ(device.info().sm_count, 7);
    EXPECT_EQ(device.info().name, "emulated Hopper SM x7");
    EXPECT_EQ(device.info().memory_bytes, std::size_t{3} << 20);
    std::vector<Buffer<unsigned char>> buffers;
    const std::string error = error_of([&] {
      for (;;) buffers.emplace_back(device, 1'000'000);
    });
    EXPECT_EQ(buffers.size(), 3u);
    expect_contains(error, "Cuda: emulated device 30: out of memory: 1000000 bytes asked for");
    buffers.erase(buffers.begin());
    EXPECT_EQ(error_of([&] { buffers.emplace_back(device, 1'000'000); }), "nothing");
  }
  const testing::ScopedEnv workers("RUNGS_EMULATOR_WORKERS", "0");
  expect_contains(error_of([] { (void)Device::open(31); }), "RUNGS_EMULATOR_WORKERS");
}

// Against a byte map: ranges never overlap, are aligned, lie inside, and all can be had again.
TEST(RangeAllocator, RandomOrder) {
  constexpr std::size_t kAlignment = 16;
  constexpr std::size_t kCapacity = 1024;
  detail::RangeAllocator ranges(kCapacity + 5, kAlignment);
  std::mt19937 random(7);
  std::vector<int> owner(kCapacity, 0);
  std::map<int, std::size_t> held;  // id → offset
  for (int id = 1; id <= 5000; ++id) {
    if (random() % 2 == 0) {
      const std::size_t size = random() % 200;
      const auto range = ranges.allocate(size);
      if (!range) {
        EXPECT_LT(ranges.largest_free(), std::max<std::size_t>(size, 1) + kAlignment - 1);
        continue;
      }
      ASSERT_EQ(range->offset % kAlignment, 0u);
      ASSERT_GE(range->size, std::max<std::size_t>(size, 1));
      ASSERT_LE(range->offset + range->size, kCapacity);
      for (std::size_t i = 0; i < range->size; ++i) {
        ASSERT_EQ(owner[range->offset + i], 0);
        owner[range->offset + i] = id;
      }
      ASSERT_EQ(ranges.find(range->offset + range->size - 1)->offset, range->offset);
      held[id] = range->offset;
    } else if (!held.empty()) {
      const auto victim = std::next(held.begin(), static_cast<long>(random() % held.size()));
      EXPECT_FALSE(ranges.release(victim->second + 1).has_value());
      const auto range = ranges.release(victim->second);
      ASSERT_TRUE(range.has_value());
      for (std::size_t i = 0; i < range->size; ++i) {
        ASSERT_EQ(owner[range->offset + i], victim->first);
        owner[range->offset + i] = 0;
      }
      held.erase(victim);
    }
  }
  for (const auto& [id, offset] : held) ASSERT_TRUE(ranges.release(offset).has_value());
  EXPECT_EQ(ranges.used(), 0u);
  EXPECT_EQ(ranges.largest_free(), kCapacity);
  EXPECT_FALSE(ranges.find(0).has_value());
}

class EmulatedTest : public GpuTest {};

// Two devices, the second of which has nothing to do but what the first one's workers hand over.
class TwoDevices : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (Device::count() < 2) return skip(Lack::kSecondGpu, "needs two devices");
    other_.emplace(Device::open(1));
    state_ = words(6, Space::kHostMapped);
    std::fill_n(state_.data(), state_.size(), 0u);
  }
  // Holds `stream` until release(), so that what follows is handed over by a worker.
  void hold(const Stream& stream) { launch_wait(stream, state_.data(), 1, state_.data() + 1); }
  void release() { __atomic_store_n(state_.data(), 1u, __ATOMIC_RELEASE); }
  // Words that kernels of both devices may use.
  [[nodiscard]] std::uint32_t* data() { return state_.data() + 2; }
  [[nodiscard]] const Device& other() const { return *other_; }
  [[nodiscard]] static Deadline soon() { return Deadline::after(std::chrono::seconds(15)); }

 private:
  std::optional<Device> other_;
  Buffer<std::uint32_t> state_;
};

TEST_F(TwoDevices, EventsWakeTheOther) {
  const Stream here(device());
  const Stream there(other());
  for (int round = 0; round < 10; ++round) {
    Event away(device());
    Event back(other());
    std::fill_n(data(), 4, 0u);
    __atomic_store_n(data() - 2, 0u, __ATOMIC_RELEASE);
    hold(here);
    launch_affine(here, data(), 1, {0, 5, {}});
    away.record(here);
    away.wait_on(there);
    other().make_current();
    launch_affine(there, data(), 1, {3, 1, {}});
    back.record(there);
    back.wait_on(here);
    device().make_current();
    launch_add(here, data() + 1, data(), 1, 100);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the other's workers sleep by now
    release();
    there.synchronize(soon());
    here.synchronize(soon());
    EXPECT_EQ(data()[0], 16u);
    EXPECT_EQ(data()[1], 116u);
  }
}

// Long copies and fills are host work of the device's workers.
TEST_F(TwoDevices, CopiesAndFillsWakeTheOther) {
  const Stream here(device());
  const Stream there(other());
  constexpr std::size_t kCount = 1'000'000;
  Buffer<std::uint32_t> from(other(), kCount);
  Buffer<std::uint32_t> to(other(), kCount);
  Event away(device());
  hold(here);
  away.record(here);
  away.wait_on(there);
  other().make_current();
  fill_async(from.data(), 7, from.size_bytes(), there);
  copy_async(to.data(), from.data(), to.size_bytes(), there);
  device().make_current();
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  release();
  there.synchronize(soon());
  EXPECT_EQ(to.download(there), Words(kCount, 0x07070707u));
}

TEST_F(TwoDevices, AGraphSpansBoth) {
  const Stream here(device());
  const Stream there(other());
  constexpr std::size_t kCount = 1'000'000;
  Buffer<std::uint32_t> filled(other(), kCount);
  Event away(device());
  Event back(other());
  const Graph graph = Graph::capture(here, [&] {
    launch_affine(here, data(), 1, {1, 1, {}});  // d0 += 1
    away.record(here);
    away.wait_on(there);
    other().make_current();
    fill_async(filled.data(), 1, filled.size_bytes(), there);
    launch_add(there, data() + 1, data(), 1, 10);  // d1 = d0 + 10
    back.record(there);
    back.wait_on(here);
    device().make_current();
    launch_add(here, data() + 2, data() + 1, 1, 100);  // d2 = d1 + 100
  });
  EXPECT_EQ(graph.node_count(), 4u);
  for (std::uint32_t i = 1; i <= 20; ++i) {
    graph.replay(here);
    here.synchronize(soon());
    EXPECT_EQ(data()[2], i + 110);
  }
  EXPECT_EQ(filled.download(there), Words(kCount, 0x01010101u));
}

#if defined(RUNGS_SANITIZE_ADDRESS)
TEST_F(EmulatedTest, RedZonesAreWatched) {
  Buffer<std::uint32_t> buffer = words(3);
  volatile std::uint32_t* const data = buffer.data();
  EXPECT_DEATH(data[3] = 1, "use-after-poison");
  EXPECT_DEATH(data[-1] = 1, "use-after-poison");
  buffer.reset();
  EXPECT_DEATH(data[0] = 1, "use-after-poison");
}
#endif

#if !defined(RUNGS_SANITIZE_THREAD)  // ThreadSanitizer allows no threads after a fork() of several
TEST_F(EmulatedTest, ForkedChildHasItsOwnDevices) {
  const Stream stream(device());
  Buffer<std::uint32_t> data = words_of({1});
  launch_affine(stream, data.data(), 1, {1, 1, {}});
  stream.synchronize();
  const auto outcomes = rungs::testing::run_processes(2, [&](int rank) {
    const std::string error = error_of([&] { launch_empty(stream); });
    if (error.find("was made before fork()") == std::string::npos) {
      throw std::runtime_error("the parent's stream was taken: " + error);
    }
    const Device own = Device::open(0);
    Buffer<std::uint32_t> mine(own, 1);
    const std::uint32_t start = static_cast<std::uint32_t>(rank) * 10;
    mine.upload(Words{start});
    launch_affine(nullptr, mine.data(), 1, {2, 1, {}});
    if (mine.download() != Words{2 * start + 1}) throw std::runtime_error("wrong result");
  });
  EXPECT_EQ(rungs::testing::failures(outcomes), "");
  EXPECT_EQ(data.download(), Words{2});
}
#endif

}  // namespace
}  // namespace rungs::gpu::test
