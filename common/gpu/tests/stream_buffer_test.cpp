// Stream-ordered memory, and the order that its uses need.

#include "fixture.hpp"
#include "kernels.hpp"

#include <rungs/gpu/graph.hpp>
#include <rungs/gpu/stream_buffer.hpp>

#include <numeric>
#include <utility>

namespace rungs::gpu::test {
namespace {

class StreamBufferTest : public GpuTest {};

using Ordered = StreamBuffer<std::uint32_t>;

TEST_F(StreamBufferTest, LivesInTheOrderOfItsStream) {
  const Stream stream(device());
  constexpr std::size_t kCount = 5000;
  Words values(kCount);
  std::iota(values.begin(), values.end(), 3u);
  const Buffer<std::uint32_t> from = words_of(values), to = words(kCount);
  for (std::uint32_t round = 0; round < 20; round++) {
    Ordered first(stream, kCount);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first.data()) % 256, 0u);
    launch_add(stream, first.data(), from.data(), kCount, round);
    Ordered second(stream, kCount);
    launch_add(stream, second.data(), first.data(), kCount, 7);
    first.release(stream);
    EXPECT_EQ(first.data(), nullptr);
    Ordered third(stream, kCount);  // may lie where the first was
    launch_add(stream, third.data(), second.data(), kCount, 1);
    copy_async(to.data(), third.data(), third.size_bytes(), stream);
    Words expected(kCount);
    for (std::size_t i = 0; i < kCount; i++) expected[i] = values[i] + round + 8;
    EXPECT_EQ(to.download(stream), expected);
  }
}

TEST_F(StreamBufferTest, AnEventCarriesItToAnotherStream) {
  const Stream one(device()), other(device());
  Event ready(device(), Timing::kNone), done(device(), Timing::kNone);
  const Buffer<std::uint32_t> from = words_of({1, 2, 3}), to = words(3);
  Ordered buffer(one, 3);
  launch_add(one, buffer.data(), from.data(), 3, 10);
  ready.record(one);
  ready.wait_on(other);
  launch_add(other, to.data(), buffer.data(), 3, 100);
  done.record(other);
  done.wait_on(one);
  buffer.release(one);
  EXPECT_EQ(to.download(other), (Words{111, 112, 113}));
  one.synchronize();
}

TEST_F(StreamBufferTest, TheHostCarriesItToAnotherStream) {
  const Stream one(device()), other(device());
  const Buffer<std::uint32_t> to = words(3);
  Ordered buffer(one, 3);
  fill_async(buffer.data(), 1, buffer.size_bytes(), one);
  one.synchronize();
  copy_async(to.data(), buffer.data(), buffer.size_bytes(), other);
  Event done(device(), Timing::kNone);
  done.record(other);
  done.synchronize();
  buffer.release(one);
  EXPECT_EQ(to.download(other), Words(3, 0x01010101u));
}

TEST_F(StreamBufferTest, EmptyMovedAndCaptured) {
  const Stream stream(device());
  Ordered empty(stream, 0);
  EXPECT_EQ(empty.data(), nullptr);
  empty.release(stream);
  Ordered from(stream, 4);
  std::uint32_t* const data = from.data();
  Ordered to = std::move(from);
  EXPECT_EQ(from.data(), nullptr);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(to.data(), data);
  to = Ordered(stream, 8);
  EXPECT_EQ(to.size(), 8u);
  expect_contains(
      error_of([&] { (void)Graph::capture(stream, [&] { const Ordered inside(stream, 4); }); }),
      "stream-ordered allocation of 16 bytes");
  stream.synchronize();
}

TEST_F(StreamBufferTest, OrderThatIsMissingIsReported) {
  if (!device().info().emulated)
    return skip(Lack::kEmulator, "CUDA does not tell: what happens is undefined");
  const Stream one(device()), other(device());
  const Buffer<std::uint32_t> to = words(3);
  Ordered buffer(one, 3);
  launch_add(one, buffer.data(), to.data(), 3, 10);
  const std::string early = error_of([&] { launch_add(other, to.data(), buffer.data(), 3, 100); });
  expect_contains(early, "kernel add on stream");
  expect_contains(early, "is not ordered behind its allocation on stream");
  expect_contains(error_of([&] { copy_async(to.data(), buffer.data() + 1, 4, other); }),
                  "copy on stream");
  expect_contains(error_of([&] { fill_async(buffer.data(), 0, 4, other); }), "fill on stream");
  expect_contains(error_of([&] { buffer.release(other); }), "is not ordered behind its allocation");

  Event ready(device(), Timing::kNone);
  ready.record(one);
  ready.wait_on(other);
  launch_add(other, to.data(), buffer.data(), 3, 100);
  expect_contains(error_of([&] { buffer.release(one); }),
                  "is not ordered behind its use by kernel");
  ready.record(other);
  ready.wait_on(one);
  const std::uint32_t* const stale = buffer.data();
  buffer.release(one);
  const std::string late = error_of([&] { launch_add(one, to.data(), stale, 3, 1); });
  expect_contains(late, "after its release on stream");
  one.synchronize();
  other.synchronize();
}

TEST_F(StreamBufferTest, DevicesHaveTheirOwn) {
  if (!device().info().emulated)
    return skip(Lack::kEmulator, "CUDA maps a pool's memory to peers only when asked to");
  if (Device::count() < 2) return skip(Lack::kSecondGpu, "needs two devices");
  const Device second = Device::open(1);
  const Stream here(device()), there(second);
  if (!device().can_access_peer(second) || !second.can_access_peer(device()))
    return skip(Lack::kSecondGpu, "needs peers");
  device().enable_peer_access(second);
  second.enable_peer_access(device());
  Ordered buffer(there, 3);
  fill_async(buffer.data(), 2, buffer.size_bytes(), there);
  Event ready(second, Timing::kNone), done(device(), Timing::kNone);
  ready.record(there);
  ready.wait_on(here);
  const Buffer<std::uint32_t> to = words(3);
  copy_async(to.data(), buffer.data(), buffer.size_bytes(), here);
  done.record(here);
  done.wait_on(there);
  buffer.release(there);
  EXPECT_EQ(to.download(here), Words(3, 0x02020202u));
  there.synchronize();
}

}  // namespace
}  // namespace rungs::gpu::test
