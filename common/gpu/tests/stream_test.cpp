// Order inside a stream, concurrency between streams, events, deadlines.

#include "fixture.hpp"
#include "kernels.hpp"

#include <atomic>
#include <thread>

namespace rungs::gpu::test {
namespace {

class StreamTest : public GpuTest {};

// What launches of `count` affine kernels with factor 3 and summands 0, 1, … do to a word.
std::uint32_t affine_chain(std::uint32_t value, std::uint32_t count) {
  std::uint64_t wide = value;
  for (std::uint32_t i = 0; i < count; ++i) wide = (wide * 3 + i) % (std::uint64_t{1} << 32);
  return static_cast<std::uint32_t>(wide);
}

TEST_F(StreamTest, RunsInOrder) {
  const Stream stream(device());
  for (const StreamHandle handle : {stream.get(), StreamHandle{nullptr}}) {
    Buffer<std::uint32_t> data = words_of({1, 2, 3, 0xffffffffu});
    for (std::uint32_t i = 0; i < 200; ++i)
      launch_affine(handle, data.data(), data.size(), {3, i, {}});
    synchronize(handle);
    EXPECT_EQ(data.download(handle), (Words{affine_chain(1, 200), affine_chain(2, 200),
                                            affine_chain(3, 200), affine_chain(0xffffffffu, 200)}));
  }
}

TEST_F(StreamTest, CopiesAndFillsKeepTheirPlace) {
  const Stream stream(device());
  constexpr std::size_t kCount = 100'000;  // above and below what is copied without a worker
  for (const std::size_t count : {std::size_t{3}, kCount}) {
    Buffer<std::uint32_t> a = words(count);
    Buffer<std::uint32_t> b = words(count);
    fill_async(a.data(), 0, a.size_bytes(), stream);
    for (std::uint32_t i = 1; i <= 5; ++i) {
      launch_affine(stream, a.data(), count, {2, i, {}});
      copy_async(b.data(), a.data(), a.size_bytes(), stream);
      fill_async(a.data(), 0, a.size_bytes(), stream);
      launch_add(stream, a.data(), b.data(), count, 10);
    }
    // x → 2x + i + 10, five times from 0.
    std::uint32_t expected = 0;
    for (std::uint32_t i = 1; i <= 5; ++i) expected = 2 * expected + i + 10;
    EXPECT_EQ(a.download(stream), Words(count, expected));
  }
}

TEST_F(StreamTest, TwoStreamsRunAtOnce) {
  const Stream first(device());
  const Stream second(device());
  constexpr std::uint32_t kRounds = 50;
  Buffer<std::uint32_t> flags = words_of({0, 0});
  Buffer<std::uint32_t> reached = words_of({0, 0});
  launch_ping_pong(first, flags.data(), flags.data() + 1, kRounds, true, reached.data());
  launch_ping_pong(second, flags.data() + 1, flags.data(), kRounds, false, reached.data() + 1);
  first.synchronize();
  second.synchronize();
  EXPECT_EQ(reached.download(), (Words{kRounds, kRounds}));
}

TEST_F(StreamTest, EventHoldsBackAnotherStream) {
  const Stream first(device());
  const Stream second(device());
  Buffer<std::uint32_t> flag = words(1, Space::kHostMapped);
  std::atomic_ref<std::uint32_t> host_flag(*flag.data());
  host_flag = 0;
  Buffer<std::uint32_t> data = words_of({5, 7});
  Event event(device());
  launch_wait(first, flag.data(), 1, data.data());  // data[0] = 1 once the host lets it
  event.record(first);
  event.wait_on(second);
  launch_add(second, data.data() + 1, data.data(), 1, 100);
  EXPECT_THROW(second.synchronize(Deadline::after(std::chrono::milliseconds(50))), Error);
  host_flag = 1;
  second.synchronize();
  first.synchronize();
  EXPECT_EQ(data.download(), (Words{1, 101}));
}

TEST_F(StreamTest, ForkAndJoinManyTimes) {
  const Stream main(device());
  const Stream side(device());
  Event fork(device());
  Event join(device());
  Buffer<std::uint32_t> data = words_of({0, 0});
  for (std::uint32_t i = 0; i < 300; ++i) {
    launch_affine(main, data.data(), 1, {3, i, {}});
    fork.record(main);
    fork.wait_on(side);
    launch_add(side, data.data() + 1, data.data(), 1, i);
    join.record(side);
    join.wait_on(main);
  }
  main.synchronize();
  EXPECT_EQ(data.download(main), (Words{affine_chain(0, 300), affine_chain(0, 300) + 299}));
}

TEST_F(StreamTest, EventsMeasureAndSynchronize) {
  const Stream stream(device());
  Event begin(device());
  Event end(device());
  begin.wait_on(stream);  // never recorded: no wait
  begin.synchronize();
  Buffer<std::uint32_t> data = words_of({0});
  begin.record(stream);
  for (int i = 0; i < 10; ++i) launch_affine(stream, data.data(), 1, {1, 1, {}});
  end.record(stream);
  end.synchronize();
  EXPECT_GE(end.seconds_since(begin), 0.0);
  EXPECT_EQ(data.download(stream), Words{10});

  const Event fresh(device());
  expect_contains(error_of([&] { (void)end.seconds_since(fresh); }),
                  "InvalidArgument: seconds_since: an event was not recorded");
}

TEST_F(StreamTest, DeadlineNamesWhatIsStuck) {
  const Stream stream(device());
  Buffer<std::uint32_t> flag = words(1, Space::kHostMapped);
  std::atomic_ref<std::uint32_t> host_flag(*flag.data());
  host_flag = 0;
  Buffer<std::uint32_t> seen = words_of({7});
  launch_wait(stream, flag.data(), 1, seen.data());
  launch_empty(stream);
  const auto soon = [] { return Deadline::after(std::chrono::milliseconds(30)); };
  const std::string error = error_of([&] { stream.synchronize(soon()); });
  expect_contains(error, "Timeout: synchronize: ");
  if (device().info().emulated)
    expect_contains(error, " for kernel wait and 1 pieces of work behind it");
  expect_contains(error_of([&] { device().synchronize(soon()); }), "Timeout: synchronize: ");
  Event event(device());
  event.record(stream);
  expect_contains(error_of([&] { event.synchronize(soon()); }), "Timeout: ");
  expect_contains(error_of([&] { (void)Event(device()).seconds_since(event); }),
                  "InvalidArgument: seconds_since");
  host_flag = 1;
  device().synchronize();
  EXPECT_EQ(seen.download(), Words{1});
}

TEST_F(StreamTest, StreamMayGoBeforeItsWork) {
  Buffer<std::uint32_t> data = words_of({0});
  for (int round = 0; round < 20; ++round) {
    Stream stream(device());
    for (int i = 0; i < 5; ++i) launch_affine(stream, data.data(), 1, {1, 1, {}});
    if (round % 2 == 0) {
      stream.synchronize();
    } else {
      stream = Stream(device());  // the old one is destroyed with its queue full
      device().synchronize();
    }
  }
  EXPECT_EQ(data.download(), Words{100});
}

TEST_F(StreamTest, LongQueueIsNoDeepStack) {
  const Stream first(device());
  const Stream second(device());
  Buffer<std::uint32_t> flag = words(1, Space::kHostMapped);
  std::atomic_ref<std::uint32_t> host_flag(*flag.data());
  host_flag = 0;
  Buffer<std::uint32_t> seen = words(1);
  Buffer<std::uint32_t> data = words(2);
  Event event(device());
  launch_wait(first, flag.data(), 1, seen.data());
  std::thread release([&] {  // a GPU's own queue is shorter than this one and makes the host wait
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    host_flag = 1;
  });
  for (int i = 0; i < 20'000; ++i) {
    fill_async(data.data(), i & 0xff, 4, first);
    event.record(first);
    event.wait_on(second);
    fill_async(data.data() + 1, i & 0xff, 4, second);
  }
  release.join();
  first.synchronize();
  second.synchronize();
  const std::uint32_t last = 0x01010101u * (19'999 & 0xff);
  EXPECT_EQ(data.download(), (Words{last, last}));
}

TEST_F(StreamTest, ThreadsShareStreams) {
  const Stream shared(device());
  constexpr unsigned kThreads = 4;
  constexpr unsigned kLaunches = 100;
  constexpr unsigned kBlock = 8;
  Buffer<std::uint32_t> counters = words_of({0, 0});
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      device().make_current();
      const Stream own(device());
      for (unsigned i = 0; i < kLaunches; ++i) {
        launch_count(shared, counters.data(), kBlock);
        launch_count(own, counters.data() + 1, kBlock);
      }
      own.synchronize();
    });
  }
  for (std::thread& thread : threads) thread.join();
  shared.synchronize();
  constexpr std::uint32_t kTotal = kThreads * kLaunches * kBlock;
  EXPECT_EQ(counters.download(), (Words{kTotal, kTotal}));
}

TEST_F(StreamTest, BadHandlesAreRefused) {
  if (!device().info().emulated)
    return skip(Lack::kEmulator, "CUDA defines what a foreign handle means");
  const auto legacy = reinterpret_cast<StreamHandle>(std::uintptr_t{1});
  expect_contains(error_of([&] { launch_empty(legacy); }),
                  "InvalidArgument: stream handle 0x1 is not a live emulated stream");
}

}  // namespace
}  // namespace rungs::gpu::test
