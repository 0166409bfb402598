// Capture and replay: what is recorded, what is refused, what runs when.

#include "fixture.hpp"
#include "kernels.hpp"

#include <rungs/gpu/graph.hpp>

#include <atomic>
#include <optional>
#include <thread>

namespace rungs::gpu::test {
namespace {

class GraphTest : public GpuTest {};

TEST_F(GraphTest, RecordsInsteadOfRunning) {
  const Stream stream(device());
  Buffer<std::uint32_t> data = words_of({1});
  std::uint32_t summand = 1;
  const Graph graph = Graph::capture(stream, [&] {
    EXPECT_TRUE(is_capturing(stream));
    launch_affine(stream, data.data(), 1, {2, summand, {}});
  });
  EXPECT_FALSE(is_capturing(stream));
  EXPECT_EQ(graph.node_count(), 1u);
  EXPECT_EQ(data.download(stream), Words{1});

  summand = 1000;  // the graph keeps the parameters of the capture
  std::uint64_t expected = 1;
  for (int i = 0; i < 100; ++i) {
    graph.replay(stream);
    expected = (2 * expected + 1) % (std::uint64_t{1} << 32);
  }
  EXPECT_EQ(data.download(stream), Words{static_cast<std::uint32_t>(expected)});
}

TEST_F(GraphTest, CopiesAndFills) {
  const Stream stream(device());
  for (const std::size_t count : {std::size_t{2}, std::size_t{100'000}}) {
    Buffer<std::uint32_t> a = words(count);
    Buffer<std::uint32_t> b = words(count);
    Buffer<std::uint32_t> host = words(count, Space::kHostMapped);
    const Graph graph = Graph::capture(stream, [&] {
      fill_async(a.data(), 1, a.size_bytes(), stream);
      launch_add(stream, a.data(), a.data(), count, 1);
      copy_async(b.data(), a.data(), a.size_bytes(), stream);
      copy_async(host.data(), b.data(), b.size_bytes(), stream);
    });
    EXPECT_EQ(graph.node_count(), 4u);
    for (int i = 0; i < 3; ++i) {
      std::fill_n(host.data(), count, 0u);
      graph.replay(stream);
      stream.synchronize();
      EXPECT_EQ(Words(host.data(), host.data() + count), Words(count, 0x01010102u));
    }
  }
}

TEST_F(GraphTest, ForkedStreams) {
  const Stream main(device());
  const Stream left(device());
  const Stream right(device());
  Event forked(device());
  Event left_done(device());
  Event right_done(device());
  Buffer<std::uint32_t> data = words_of({0, 0, 0, 0});
  std::uint32_t* const d = data.data();
  const Graph graph = Graph::capture(main, [&] {
    launch_affine(main, d, 1, {1, 1, {}});  // d0 += 1
    forked.record(main);
    forked.wait_on(left);
    forked.wait_on(right);
    EXPECT_TRUE(is_capturing(left));
    launch_add(left, d + 1, d, 1, 10);
    launch_affine(left, d + 1, 1, {2, 0, {}});  // d1 = 2 (d0 + 10)
    launch_add(right, d + 2, d, 1, 20);         // d2 = d0 + 20
    left_done.record(left);
    right_done.record(right);
    left_done.wait_on(main);
    right_done.wait_on(main);
    launch_add(main, d + 3, d + 1, 1, 0);  // d3 = d1
  });
  EXPECT_EQ(graph.node_count(), 5u);
  EXPECT_FALSE(is_capturing(left));
  for (std::uint32_t i = 1; i <= 100; ++i) {
    graph.replay(main);
    EXPECT_EQ(data.download(main), (Words{i, 2 * (i + 10), i + 20, 2 * (i + 10)}));
  }
}

TEST_F(GraphTest, BranchesRunAtOnce) {
  const Stream main(device());
  const Stream side(device());
  Event fork(device());
  Event join(device());
  constexpr std::uint32_t kRounds = 20;
  Buffer<std::uint32_t> flags = words(2);
  Buffer<std::uint32_t> reached = words(2);
  const Graph graph = Graph::capture(main, [&] {
    fill_async(flags.data(), 0, flags.size_bytes(), main);
    fill_async(reached.data(), 0, reached.size_bytes(), main);
    fork.record(main);
    fork.wait_on(side);
    launch_ping_pong(main, flags.data(), flags.data() + 1, kRounds, true, reached.data());
    launch_ping_pong(side, flags.data() + 1, flags.data(), kRounds, false, reached.data() + 1);
    join.record(side);
    join.wait_on(main);
  });
  for (int i = 0; i < 5; ++i) {
    graph.replay(main);
    EXPECT_EQ(reached.download(main), (Words{kRounds, kRounds}));
  }
}

TEST_F(GraphTest, ReplayKeepsItsPlaceInTheStream) {
  const Stream stream(device());
  Buffer<std::uint32_t> data = words_of({1});
  const Graph graph = Graph::capture(stream, [&] {
    launch_affine(stream, data.data(), 1, {3, 1, {}});
  });
  std::uint64_t expected = 1;
  for (int i = 0; i < 50; ++i) {
    launch_affine(stream, data.data(), 1, {5, 2, {}});
    graph.replay(stream);
    expected = ((expected * 5 + 2) * 3 + 1) % (std::uint64_t{1} << 32);
  }
  EXPECT_EQ(data.download(stream), Words{static_cast<std::uint32_t>(expected)});
}

TEST_F(GraphTest, ReplaysOnTwoStreamsAreOneAfterTheOther) {
  const Stream capturing(device());
  const Stream other(device());
  Buffer<std::uint32_t> data = words_of({0});
  // Not atomic: two replays at once would lose additions.
  const Graph graph = Graph::capture(capturing, [&] {
    for (int i = 0; i < 10; ++i) launch_affine(capturing, data.data(), 1, {1, 1, {}});
  });
  for (int i = 0; i < 50; ++i) {
    graph.replay(capturing);
    graph.replay(other);
  }
  capturing.synchronize();
  other.synchronize();
  EXPECT_EQ(data.download(), Words{1000});
}

TEST_F(GraphTest, MayBeDestroyedInFlight) {
  const Stream stream(device());
  Buffer<std::uint32_t> flag = words(1, Space::kHostMapped);
  std::atomic_ref<std::uint32_t> host_flag(*flag.data());
  host_flag = 0;
  Buffer<std::uint32_t> data = words_of({0, 0});
  std::optional<Graph> graph = Graph::capture(stream, [&] {
    launch_wait(stream, flag.data(), 1, data.data());
    launch_add(stream, data.data() + 1, data.data(), 1, 41);
  });
  graph->replay(stream);
  graph.reset();
  host_flag = 1;
  EXPECT_EQ(data.download(stream), (Words{1, 42}));
}

TEST_F(GraphTest, GraphInsideAGraph) {
  const Stream stream(device());
  Buffer<std::uint32_t> data = words_of({0});
  const Graph inner = Graph::capture(stream, [&] {
    launch_affine(stream, data.data(), 1, {1, 1, {}});
    launch_affine(stream, data.data(), 1, {2, 0, {}});
  });
  const Graph outer = Graph::capture(stream, [&] {
    launch_affine(stream, data.data(), 1, {1, 3, {}});
    inner.replay(stream);
    inner.replay(stream);
    launch_affine(stream, data.data(), 1, {1, 5, {}});
  });
  EXPECT_EQ(outer.node_count(), 6u);
  outer.replay(stream);
  EXPECT_EQ(data.download(stream), Words{((0 + 3 + 1) * 2 + 1) * 2 + 5});
}

TEST_F(GraphTest, EmptyGraph) {
  const Stream stream(device());
  const Graph graph = Graph::capture(stream, [] {});
  EXPECT_EQ(graph.node_count(), 0u);
  for (int i = 0; i < 1000; ++i) graph.replay(stream);
  stream.synchronize();
  const Graph moved = Graph::capture(stream, [&] { graph.replay(stream); });
  EXPECT_EQ(moved.node_count(), 0u);
}

TEST_F(GraphTest, RefusesWhatACaptureCannotHold) {
  const Stream stream(device());
  const Stream other(device());
  Event outside(device());
  Event inside(device());
  Buffer<std::uint32_t> data = words_of({0});
  outside.record(other);
  const auto capture = [&](const std::function<void()>& body) {
    return error_of([&] { (void)Graph::capture(stream, body); });
  };
  expect_contains(capture([&] { stream.synchronize(); }),
                  "InvalidArgument: synchronize: not possible while a graph is being captured");
  expect_contains(capture([&] { device().synchronize(); }),
                  "InvalidArgument: Device::synchronize: not possible");
  expect_contains(capture([&] { (void)data.download(stream); }),
                  "InvalidArgument: synchronize: not possible");
  expect_contains(capture([&] { (void)words(1); }),
                  "InvalidArgument: allocation of 4 bytes: not possible");
  expect_contains(capture([&] { outside.wait_on(stream); }), "recorded outside");
  expect_contains(capture([&] {
                    inside.record(stream);
                    inside.synchronize();
                  }),
                  "InvalidArgument: Event::synchronize: not possible");
  // A body that swallows the error gets no graph either.
  expect_contains(capture([&] {
                    launch_empty(stream);
                    (void)error_of([&] { stream.synchronize(); });
                  }),
                  "InvalidArgument: capture: no graph, since the body did what a capture does not "
                  "allow: synchronize");
  expect_contains(capture([&] { (void)Graph::capture(stream, [] {}); }),
                  "is being captured already");
  expect_contains(error_of([&] { (void)Graph::capture(nullptr, [] {}); }),
                  "InvalidArgument: capture: the default stream cannot be captured");

  // The streams are as good as before.
  EXPECT_FALSE(is_capturing(stream));
  launch_affine(stream, data.data(), 1, {1, 1, {}});
  EXPECT_EQ(data.download(stream), Words{1});
}

TEST_F(GraphTest, RefusesAnUnjoinedFork) {
  const Stream stream(device());
  const Stream side(device());
  Event fork(device());
  Buffer<std::uint32_t> data = words_of({0});
  const std::string error = error_of([&] {
    (void)Graph::capture(stream, [&] {
      launch_empty(stream);
      fork.record(stream);
      fork.wait_on(side);
      launch_affine(side, data.data(), 1, {1, 1, {}});
    });
  });
  expect_contains(error, "InvalidArgument: capture: ");
  expect_contains(error, "not joined again");
  EXPECT_FALSE(is_capturing(side));
  launch_affine(side, data.data(), 1, {1, 1, {}});
  EXPECT_EQ(data.download(side), Words{1});
  // The event is of a capture that has ended.
  EXPECT_NE(error_of([&] { fork.wait_on(stream); }), "nothing");
}

TEST_F(GraphTest, BodysExceptionComesThrough) {
  const Stream stream(device());
  EXPECT_THROW((void)Graph::capture(stream, [] { throw std::runtime_error("mine"); }),
               std::runtime_error);
  EXPECT_FALSE(is_capturing(stream));
  EXPECT_EQ(Graph::capture(stream, [&] { launch_empty(stream); }).node_count(), 1u);
}

TEST_F(GraphTest, ThreadsCaptureAndRunSideBySide) {
  constexpr int kThreads = 4;
  Buffer<std::uint32_t> counters = words_of(Words(kThreads, 0));
  std::vector<std::string> errors(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      errors[static_cast<std::size_t>(t)] = error_of([&] {
        const Stream stream(device());
        for (int round = 0; round < 5; ++round) {
          const Graph graph = Graph::capture(stream, [&] {
            for (int i = 0; i < 20; ++i) launch_count(stream, counters.data() + t, 4);
          });
          for (int i = 0; i < 5; ++i) graph.replay(stream);
          stream.synchronize();
        }
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(errors, std::vector<std::string>(kThreads, "nothing"));
  EXPECT_EQ(counters.download(), Words(kThreads, 5 * 20 * 5 * 4));
}

}  // namespace
}  // namespace rungs::gpu::test
