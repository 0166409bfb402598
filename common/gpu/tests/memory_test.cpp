// Buffers, copies, poison, reuse and exhaustion; memory of several devices and of the host.

#include "fixture.hpp"
#include "kernels.hpp"

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <numeric>

namespace rungs::gpu::test {
namespace {

class MemoryTest : public GpuTest {};

constexpr Space kSpaces[] = {Space::kDevice, Space::kHostMapped, Space::kShared};

TEST_F(MemoryTest, UploadsAndDownloads) {
  for (const Space space : kSpaces) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{255}, std::size_t{1} << 20}) {
      Buffer<std::uint32_t> buffer = words(count, space);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 256, 0u);
      Words values(count);
      std::iota(values.begin(), values.end(), 17u);
      buffer.upload(values);
      EXPECT_EQ(buffer.download(), values);
    }
  }
}

TEST_F(MemoryTest, EmptyAndMovedBuffers) {
  Buffer<std::uint32_t> empty = words(0);
  EXPECT_EQ(empty.data(), nullptr);
  EXPECT_EQ(empty.download(), Words{});
  empty.upload({});
  Buffer<std::uint32_t> from = words_of({1, 2});
  Buffer<std::uint32_t> to = std::move(from);
  EXPECT_EQ(from.data(), nullptr);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(to.download(), (Words{1, 2}));
  to.reset();
  EXPECT_EQ(to.size(), 0u);
  const Words three(3);
  expect_contains(error_of([&] {
                    words_of({1, 2}).upload(three);
                  }),
                  "InvalidArgument: upload of 3 elements into a buffer of 2");
}

TEST_F(MemoryTest, ACopyAfterItsTimeOutUsesNothingOfTheCallers) {
  if (!device().info().emulated)
    return skip(Lack::kEmulator, "CUDA may make the copy of pageable memory wait in the call");
  const Stream stream(device());
  Buffer<std::uint32_t> flag = words(1, Space::kHostMapped);
  std::atomic_ref<std::uint32_t> host_flag(*flag.data());
  host_flag = 0;
  Buffer<std::uint32_t> seen = words(1);
  Buffer<std::uint32_t> data = words_of({7, 7, 7});
  launch_wait(stream, flag.data(), 1, seen.data());
  const auto soon = [] { return Deadline::after(std::chrono::milliseconds(30)); };
  auto source = std::make_unique<Words>(Words{1, 2, 3});
  expect_contains(error_of([&] { data.upload(*source, stream, soon()); }), "Timeout: ");
  source->assign(3, 99);  // the caller's again, to write and to free
  source.reset();
  expect_contains(error_of([&] { (void)data.download(stream, soon()); }), "Timeout: ");
  host_flag = 1;
  stream.synchronize();
  EXPECT_EQ(data.download(), (Words{1, 2, 3}));
}

TEST_F(MemoryTest, FreshMemoryIsNaN) {
  if (!device().info().emulated)
    return skip(Lack::kEmulator, "only the emulated device fills fresh memory");
  for (const Space space : kSpaces) {
    for (int round = 0; round < 2; ++round) {  // the second time it is memory that was used
      Buffer<std::uint32_t> buffer = words(1000, space);
      EXPECT_EQ(buffer.download(), Words(1000, 0xffffffffu));
      fill_async(buffer.data(), 0, buffer.size_bytes(), nullptr);
      device().synchronize();
    }
  }
}

TEST_F(MemoryTest, FreedMemoryIsUsedAgain) {
  const std::size_t total = device().info().memory_bytes;
  // More than the device has, in turn: only reuse makes it fit.
  const std::size_t chunk = std::min<std::size_t>(total / 4, std::size_t{16} << 20);
  std::vector<Buffer<unsigned char>> kept;
  for (int i = 0; i < 12; ++i) {
    Buffer<unsigned char> buffer(device(), chunk / 4);
    if (i % 4 == 0) kept.push_back(std::move(buffer));  // leaves holes
  }
  kept.clear();
  if (device().info().emulated) {
    const void* first = Buffer<unsigned char>(device(), chunk).data();
    for (int i = 0; i < 4; ++i) EXPECT_EQ(Buffer<unsigned char>(device(), chunk).data(), first);
  }
}

TEST_F(MemoryTest, ExhaustionIsExplained) {
  const std::size_t total = device().info().memory_bytes;
  const std::string error = error_of([&] { Buffer<unsigned char>(device(), total + 1); });
  expect_contains(error, "Cuda: ");
  expect_contains(error, "out of memory: " + std::to_string(total + 1) + " bytes asked for");
  expect_contains(error_of([&] { Buffer<std::uint64_t>(device(), SIZE_MAX / 4); }),
                  "InvalidArgument: buffer of");
  EXPECT_EQ(words_of({3}).download(), Words{3});  // the device goes on
}

TEST_F(MemoryTest, BadCopiesAreRefused) {
  Buffer<std::uint32_t> data = words_of({1, 2, 3, 4});
  std::uint32_t* const d = data.data();
  expect_contains(error_of([&] { copy_async(d, nullptr, 4, nullptr); }),
                  "InvalidArgument: copy of 4 bytes: the source is null");
  expect_contains(error_of([&] { copy_async(nullptr, d, 4, nullptr); }), "the destination is null");
  expect_contains(error_of([&] { copy_async(d + 1, d, 8, nullptr); }),
                  "source and destination overlap");
  expect_contains(error_of([&] { fill_async(nullptr, 0, 4, nullptr); }),
                  "InvalidArgument: fill of 4 bytes: the destination is null");
  copy_async(nullptr, nullptr, 0, nullptr);
  fill_async(nullptr, 0, 0, nullptr);
  copy_async(d + 2, d, 8, nullptr);
  EXPECT_EQ(data.download(), (Words{1, 2, 1, 2}));
}

TEST_F(MemoryTest, HostAndKernelShareFlags) {
  const Stream stream(device());
  Buffer<std::uint32_t> flags = words(2, Space::kHostMapped);
  std::atomic_ref<std::uint32_t> to_kernel(flags.data()[0]);
  std::atomic_ref<std::uint32_t> to_host(flags.data()[1]);
  to_kernel = 0;
  to_host = 0;
  Buffer<std::uint32_t> reached = words_of({0});
  constexpr std::uint32_t kRounds = 20;
  launch_ping_pong(stream, flags.data(), flags.data() + 1, kRounds, false, reached.data());
  for (std::uint32_t round = 1; round <= kRounds; ++round) {
    to_kernel = round;
    wait_until([&] { return to_host == round; }, Deadline::standard(),
               [] { return std::string("the kernel's flag"); });
  }
  EXPECT_EQ(reached.download(stream), Words{kRounds});
}

TEST_F(MemoryTest, DevicesUseEachOthersMemory) {
  if (Device::count() < 2) return skip(Lack::kSecondGpu, "this machine has one GPU");
  const Device other = Device::open(1);
  if (!other.can_access_peer(device())) return skip(Lack::kSecondGpu, "GPU 1 cannot reach GPU 0");
  other.enable_peer_access(device());
  other.enable_peer_access(device());
  EXPECT_FALSE(device().can_access_peer(device()));
  EXPECT_NE(error_of([&] { device().enable_peer_access(device()); }), "nothing");
  const Stream stream(other);
  for (const Space space : {Space::kDevice, Space::kShared}) {
    Buffer<std::uint32_t> here = words(3, space);
    Buffer<std::uint32_t> there(other, 3, space);
    here.upload(Words{1, 2, 3});
    launch_add(stream, there.data(), here.data(), 3, 100);   // reads over the link
    launch_add(stream, here.data(), there.data(), 3, 1000);  // writes over it
    EXPECT_EQ(there.download(stream), (Words{101, 102, 103}));
    EXPECT_EQ(here.download(stream), (Words{1101, 1102, 1103}));
  }
}

TEST_F(MemoryTest, DevicesAreIndependent) {
  const int count = Device::count();
  expect_contains(error_of([&] { (void)Device::open(count); }),
                  "InvalidArgument: device " + std::to_string(count) + " does not exist");
  expect_contains(error_of([&] { (void)Device::open(-1); }),
                  "InvalidArgument: device -1 does not exist");
  for (int i = 0; i < std::min(count, 3); ++i) {
    const Device one = Device::open(i);
    EXPECT_EQ(one.info().ordinal, i);
    EXPECT_GE(one.info().sm_count, 1);
    one.make_current();
    EXPECT_EQ(Device::current().ordinal(), i);
    Buffer<std::uint32_t> data(one, 2);
    data.upload(Words{4, 5});
    launch_affine(nullptr, data.data(), 2, {2, 1, {}});  // the null stream is the current device's
    EXPECT_EQ(data.download(), (Words{9, 11}));
  }
}

}  // namespace
}  // namespace rungs::gpu::test
