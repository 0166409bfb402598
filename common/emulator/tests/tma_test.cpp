// Tile copies: every swizzle and element size, edges, multicast; the rules of tensor maps.

#include "launch_kernel.hpp"

#include <rungs/core/error.hpp>
#include <rungs/emulator/tensor_map.hpp>
#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/mbarrier.hpp>
#include <rungs/ptx/sync.hpp>
#include <rungs/ptx/tma.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace rungs::emulator::testing {
namespace {

using gpu::Swizzle;

struct alignas(1024) TileBuffer {
  std::uint8_t bytes[32768];
  std::uint64_t landed;
};

// Copies one tile and stores the shared-memory image.
RUNGS_KERNEL(64)
copy_tile(RUNGS_GRID_CONSTANT const gpu::TensorMap map, int x, int y, std::uint32_t tile_bytes,
          std::uint8_t* out) {
  RUNGS_DYNAMIC_SHARED(TileBuffer, s);
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&s.landed, 1);
    ptx::fence_mbarrier_init();
  }
  ptx::syncthreads();
  if (threadIdx.x == 0) {
    ptx::mbarrier_arrive_expect_tx(&s.landed, tile_bytes);
    ptx::tma_load_2d(s.bytes, &map, &s.landed, x, y);
  }
  ptx::mbarrier_wait(&s.landed, 0);
  for (std::uint32_t i = threadIdx.x; i < tile_bytes; i += blockDim.x) out[i] = s.bytes[i];
}

// The picture in the PTX ISA, as a table: chunk c of 16 bytes in row r of a 128-byte-wide picture
// lies at c ^ f(r).
std::uint32_t chunk_of(Swizzle swizzle, std::uint32_t line, std::uint32_t chunk) {
  switch (swizzle) {
    case Swizzle::k128B:
      return chunk ^ (line % 8);
    case Swizzle::k64B:
      return (chunk & 4) | ((chunk & 3) ^ (line % 4));
    case Swizzle::k32B:
      return (chunk & 6) | ((chunk & 1) ^ (line % 2));
    default:
      return chunk;
  }
}

struct Case {
  std::uint32_t element, box_rows, box_cols;
  Swizzle swizzle;
};

void check_tile(Executor& executor, const Case& c, int x, int y) {
  constexpr std::uint32_t kRows = 37;
  const std::uint32_t cols = 160 / c.element + 5;
  const std::uint32_t pitch = (cols * c.element + 31) / 16 * 16;
  std::vector<std::uint8_t> storage(kRows * pitch + 16);
  auto* base = storage.data() + (16 - reinterpret_cast<std::uintptr_t>(storage.data()) % 16) % 16;
  for (std::uint32_t i = 0; i < kRows * pitch; i++)
    base[i] = static_cast<std::uint8_t>(i * 7 + i / 251 + 1);
  const auto map =
      encode_tensor_map({base, kRows, cols, pitch, c.box_rows, c.box_cols, c.element, c.swizzle});
  const std::uint32_t row_bytes = c.box_cols * c.element, tile = row_bytes * c.box_rows;
  std::vector<std::uint8_t> expected(tile), out(tile, 0xee);
  for (std::uint32_t r = 0; r < c.box_rows; r++) {
    for (std::uint32_t b = 0; b < row_bytes; b++) {
      const std::int64_t gy = std::int64_t{y} + r, gx = std::int64_t{x} + b / c.element;
      const bool inside = gy >= 0 && gy < kRows && gx >= 0 && gx < cols;
      const std::uint32_t linear = r * row_bytes + b, line = linear / 128,
                          chunk = linear % 128 / 16;
      const std::uint32_t place = line * 128 + chunk_of(c.swizzle, line, chunk) * 16 + linear % 16;
      expected[place] =
          inside ? base[gy * pitch + gx * c.element + b % c.element] : std::uint8_t{0};
    }
  }
  const gpu::LaunchConfig config{.grid = {1}, .block = {64}, .shared_bytes = sizeof(TileBuffer)};
  ASSERT_EQ(run(executor, config, copy_tile, map, x, y, tile, out.data()), "");
  for (std::uint32_t i = 0; i < tile; i++) {
    ASSERT_EQ(out[i], expected[i])
        << "byte " << i << " of a " << c.box_rows << " x " << c.box_cols << " box of " << c.element
        << "-byte elements, swizzle " << static_cast<int>(c.swizzle) << ", at " << x << ", " << y;
  }
}

class TmaTest : public ::testing::TestWithParam<Async> {};
INSTANTIATE_TEST_SUITE_P(Landing, TmaTest,
                         ::testing::Values(Async::kLate, Async::kEarly, Async::kRandom));

TEST_P(TmaTest, CopiesEverySwizzleSizeAndEdge) {
  Options options;
  options.async = GetParam();
  options.seed = GetParam() == Async::kRandom ? 11 : 0;
  const ScopedOptions scope(options);
  Executor executor({4, 1});
  for (const std::uint32_t element : {1u, 2u, 4u, 8u}) {
    for (const Swizzle swizzle : {Swizzle::kNone, Swizzle::k32B, Swizzle::k64B, Swizzle::k128B}) {
      const int chunk = static_cast<int>(16 / element);  // columns come in steps of 16 bytes
      for (const std::uint32_t rows : {8u, 24u}) {
        const Case c{element, rows, swizzle_span_bytes(swizzle) / element, swizzle};
        check_tile(executor, c, 0, 0);
        check_tile(executor, c, 3 * chunk, 5);
        check_tile(executor, c, -2 * chunk, -3);
        check_tile(executor, c, 10 * chunk, 30);      // over both far edges
        check_tile(executor, c, 1000 * chunk, 1000);  // all outside
        check_tile(executor, c, -1000 * chunk, 2);
      }
    }
  }
  check_tile(executor, {2, 64, 64, Swizzle::kNone}, 8, 1);  // a row wider than the swizzle unit
  check_tile(executor, {1, 8, 256, Swizzle::kNone}, 0, 0);
}

TEST(TmaMisuse, AColumnInsideA16ByteChunkIsReported) {
  Executor executor({4, 1});
  alignas(16) static const std::uint8_t source[8 * 128] = {};
  const auto map = encode_tensor_map({source, 8, 64, 128, 8, 8, 2, Swizzle::kNone});
  std::vector<std::uint8_t> out(128, 0xee);
  const gpu::LaunchConfig config{.grid = {1}, .block = {64}, .shared_bytes = sizeof(TileBuffer)};
  EXPECT_EQ(run(executor, config, copy_tile, map, 8, 0, 128u, out.data()), "");
  const std::string report = run(executor, config, copy_tile, map, 5, 0, 128u, out.data());
  EXPECT_NE(report.find("column 5 is byte 10 of its row, not a multiple of 16"), std::string::npos)
      << report;
  EXPECT_NE(report.find("tma_test.cpp:"), std::string::npos) << report;
}

struct alignas(1024) MulticastBuffer {
  std::uint8_t bytes[2][1024];
  std::uint64_t landed;
};

// Both blocks of a cluster load half of the tile into both.
RUNGS_KERNEL(64)
multicast_halves(RUNGS_GRID_CONSTANT const gpu::TensorMap map, std::uint8_t* out) {
  RUNGS_DYNAMIC_SHARED(MulticastBuffer, s);
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&s.landed, 1);
    ptx::fence_mbarrier_init();
  }
  ptx::cluster_arrive();
  ptx::cluster_wait();
  const std::uint32_t rank = ptx::cluster_rank();
  if (threadIdx.x == 0) {
    ptx::mbarrier_arrive_expect_tx(&s.landed, 2048);
    ptx::tma_load_2d_multicast(s.bytes[rank], &map, &s.landed, 0, static_cast<int>(8 * rank), 3);
  }
  ptx::mbarrier_wait(&s.landed, 0);
  for (unsigned i = threadIdx.x; i < 2048; i += 64)
    out[blockIdx.x * 2048 + i] = s.bytes[i / 1024][i % 1024];
  ptx::cluster_arrive();
  ptx::cluster_wait();
}

TEST_P(TmaTest, MulticastReachesTheWholeCluster) {
  Options options;
  options.async = GetParam();
  const ScopedOptions scope(options);
  Executor executor({4, 1});
  alignas(16) static std::uint8_t source[2048];
  for (int i = 0; i < 2048; i++) source[i] = static_cast<std::uint8_t>(i * 13 + i / 256);
  const auto map = encode_tensor_map({source, 16, 128, 128, 8, 128, 1, Swizzle::kNone});
  std::vector<std::uint8_t> out(4 * 2048, 0);
  const gpu::LaunchConfig config{
      .grid = {4}, .block = {64}, .shared_bytes = sizeof(MulticastBuffer), .cluster = {2}};
  ASSERT_EQ(run(executor, config, multicast_halves, map, out.data()), "");
  for (std::size_t i = 0; i < out.size(); i++) ASSERT_EQ(out[i], source[i % 2048]) << i;
  EXPECT_EQ(executor.counters().async_bytes, 4u * 2048);
}

TEST(TensorMap, PacksAndUnpacks) {
  alignas(16) static std::uint8_t memory[4096];
  const TensorMapFields fields{memory, 10, 100, 208, 8, 64, 2, Swizzle::k128B};
  TensorMapFields found;
  ASSERT_TRUE(decode_tensor_map(encode_tensor_map(fields), &found));
  EXPECT_EQ(found, fields);
  EXPECT_FALSE(decode_tensor_map(gpu::TensorMap{}, &found));
}

TEST(TensorMap, RefusesWhatTheHardwareRefuses) {
  alignas(16) static std::uint8_t memory[4096];
  const TensorMapFields good{memory, 10, 64, 128, 8, 64, 2, Swizzle::k128B};
  const auto refused = [&](auto change, const char* words) {
    TensorMapFields fields = good;
    change(fields);
    try {
      static_cast<void>(encode_tensor_map(fields));
      ADD_FAILURE() << "accepted: " << words;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_NE(error.message().find(words), std::string::npos) << error.message();
    }
  };
  EXPECT_NO_THROW(static_cast<void>(encode_tensor_map(good)));
  refused([](auto& f) { f.base = memory + 8; }, "16-byte aligned");
  refused([](auto& f) { f.base = nullptr; }, "not null");
  refused([](auto& f) { f.rows = 0; }, "rows and columns");
  refused([](auto& f) { f.pitch_bytes = 136; }, "multiple of 16 bytes");
  refused([](auto& f) { f.pitch_bytes = 112; }, "shorter than a row of 128");
  refused([](auto& f) { f.box_rows = 257; }, "257 x 64");
  refused([](auto& f) { f.box_cols = 0; }, "1 to 256");
  refused([](auto& f) { f.box_cols = 63; }, "multiple of 16 bytes, got 126");
  refused([](auto& f) { f.swizzle = Swizzle::k64B; }, "at most 64 bytes, got 128");
  refused([](auto& f) { f.element_bytes = 3; }, "got 3");
}

}  // namespace
}  // namespace rungs::emulator::testing
