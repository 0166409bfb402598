// Parameters, shapes that are refused, and kernels that fail.

#include "fixture.hpp"
#include "kernels.hpp"

#include <rungs/gpu/counters.hpp>
#include <rungs/gpu/graph.hpp>

#include <numeric>
#include <optional>

namespace rungs::gpu::test {
namespace {

class LaunchTest : public GpuTest {};

TEST_F(LaunchTest, RefusesImpossibleShapes) {
  const auto error = [&](const LaunchConfig& config) {
    return error_of([&] { launch_shape(nullptr, config); });
  };
  expect_contains(error({.grid = {0}, .block = {32}}),
                  "InvalidArgument: launch of shape: grid.x is 0, it must be 1 to 2147483647");
  expect_contains(error({.grid = {1, 65536}, .block = {32}}),
                  "grid.y is 65536, it must be 1 to 65535");
  expect_contains(error({.grid = {1}, .block = {1, 1, 65}}), "block.z is 65, it must be 1 to 64");
  expect_contains(error({.grid = {1}, .block = {64, 32}}),
                  "a block of 64x32x1 has 2048 threads, at most 1024 are possible");
  expect_contains(error({.grid = {1}, .block = {32}, .shared_bytes = 300'000}),
                  "300000 bytes of dynamic shared memory a block");
  expect_contains(error({.grid = {32}, .block = {32}, .cluster = {16}}),
                  "a cluster of 16x1x1 has 16 blocks, it must have 1 to 8");
  expect_contains(error({.grid = {3}, .block = {32}, .cluster = {2}}),
                  "the grid 3x1x1 is not a multiple of the cluster 2x1x1");
  const unsigned too_many =
      static_cast<unsigned>(device().info().sm_count) * 2 + 1;  // of 1024 threads
  const std::string cooperative = error({.grid = {too_many}, .block = {1024}, .cooperative = true});
  expect_contains(cooperative, "Unsupported: ");
  expect_contains(cooperative, "shape");
  expect_contains(cooperative, std::to_string(too_many));
  // What was refused left nothing behind.
  launch_shape(nullptr, {.grid = {4, 2, 2}, .block = {8, 4, 2}});
  launch_shape(nullptr, {.grid = {too_many - 1}, .block = {1024}, .cooperative = true});
  device().synchronize();
}

TEST_F(LaunchTest, DynamicSharedMemoryAbove48KB) {
  Words values(1000);
  std::iota(values.begin(), values.end(), 0u);
  for (const unsigned shared_bytes : {4000u, 100'000u, 232'448u, 49'153u}) {
    Buffer<std::uint32_t> data = words_of(values);
    launch_reverse(nullptr, data.data(), 1000, shared_bytes);
    EXPECT_EQ(data.download(), Words(values.rbegin(), values.rend()));
  }
}

TEST_F(LaunchTest, CountsLaunches) {
  const Stream stream(device());
  const std::uint64_t before = counters(device()).launches;
  for (int i = 0; i < 7; ++i) launch_empty(stream);
  stream.synchronize();
  EXPECT_EQ(counters(device()).launches - before, 7u);
  const Graph graph = Graph::capture(stream, [&] {
    launch_empty(stream);
    launch_empty(stream);
  });
  EXPECT_EQ(counters(device()).launches - before, 7u);
  for (int i = 0; i < 5; ++i) graph.replay(stream);
  stream.synchronize();
  EXPECT_EQ(counters(device()).launches - before, 17u);
  EXPECT_EQ(counters(device()).mma_flops.has_value(), device().info().emulated);
}

TEST(Counters, DifferencesAreOfWhatBothReadingsHave) {
  const Counters before{3, 100, std::nullopt, 7};
  const Counters after{10, 164, std::nullopt, std::nullopt};
  const Counters between = after - before;
  EXPECT_EQ(between.launches, 7u);
  EXPECT_EQ(between.async_bytes, std::optional<std::uint64_t>(64));
  EXPECT_FALSE(between.mma_flops.has_value());
  EXPECT_FALSE(between.barriers.has_value());
}

class FailureTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (!device().info().emulated)
      skip(Lack::kEmulator, "a kernel that fails ends a CUDA process's context");
  }
  void TearDown() override {
    if (!IsSkipped()) detail::reset_error_for_tests(device());
  }
};

TEST_F(FailureTest, IsThrownBySynchronizeAndStays) {
  const Stream stream(device());
  Buffer<std::uint32_t> data = words_of({1});
  launch_affine(stream, data.data(), 1, {1, 1, {}});
  launch_deadlock(stream);
  launch_affine(stream, data.data(), 1,
                {1, 100, {}});  // behind the failure: does not run, nor does it throw
  const std::string first = error_of([&] { stream.synchronize(); });
  expect_contains(first, "Cuda: synchronize on device 0: ");
  expect_contains(first, "deadlock");
  EXPECT_EQ(error_of([&] { stream.synchronize(); }), first);
  EXPECT_EQ(error_of([&] { device().synchronize(); }), first);
  expect_contains(error_of([&] { launch_empty(nullptr); }), "Cuda: submission on device 0: ");
  expect_contains(error_of([&] { fill_async(data.data(), 0, 4, stream); }),
                  "Cuda: submission on device 0: ");
  if (Device::count() > 1) Device::open(1).synchronize();  // only this device failed

  detail::reset_error_for_tests(device());
  EXPECT_EQ(data.download(stream), Words{2});
}

TEST_F(FailureTest, InsideAGraph) {
  const Stream stream(device());
  Event event(device());
  Buffer<std::uint32_t> data = words_of({1});
  const Graph graph = Graph::capture(stream, [&] {
    launch_deadlock(stream);
    launch_affine(stream, data.data(), 1, {1, 100, {}});
  });
  graph.replay(stream);
  event.record(stream);
  expect_contains(error_of([&] { event.synchronize(); }), "deadlock");
  expect_contains(error_of([&] { graph.replay(stream); }), "Cuda: replay on device 0: ");
  detail::reset_error_for_tests(device());
  EXPECT_EQ(data.download(stream), Words{1});
}

}  // namespace
}  // namespace rungs::gpu::test
