/// The wgmma rung under other machines and other schedules: SM counts (how many tiles a persistent
/// block walks, and which tile is chosen) and the emulator's choice of when asynchronous copies and
/// multiplications land.

#include <rungs/config.hpp>
#include <rungs/gemm/gemm.hpp>
#include <rungs/testing/rerun.hpp>

#include "check.hpp"
#include "detail/tile_choice.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <string>

namespace rungs::gemm {
namespace {

using detail::choose_tile;
using detail::tile_count;
using detail::TileShape;

TEST(TileChoice, FillsTheMachineBeforeItGrowsTheTile) {
  constexpr int kSms = 132;
  EXPECT_EQ(choose_tile(512, 512, kSms), (TileShape{64, 64}));
  EXPECT_EQ(choose_tile(1024, 1024, kSms), (TileShape{64, 128}));
  EXPECT_EQ(choose_tile(2048, 2048, kSms), (TileShape{128, 256}));
  EXPECT_EQ(choose_tile(8192, 8192, kSms), (TileShape{128, 256}));
  EXPECT_EQ(choose_tile(64, 2112, kSms), (TileShape{64, 64}));
  EXPECT_EQ(choose_tile(256, 256, 4), (TileShape{128, 128}));
}

TEST(TileChoice, CountsTilesOfRaggedEdges) {
  EXPECT_EQ(tile_count({128, 256}, 128, 256), 1);
  EXPECT_EQ(tile_count({128, 256}, 129, 257), 4);
  EXPECT_EQ(tile_count({64, 64}, 1, 65), 2);
}

class Schedule : public OnDevice<::testing::Test> {
 protected:
  void SetUp() override { needs_rung(kLadder[2]); }
};

/// Eight products that between them choose every tile shape, wrap the ring and end ragged.
TEST_F(Schedule, Subject) {
  const std::array<std::array<int, 3>, 4> sizes{
      {{64, 64, 64}, {130, 257, 392}, {257, 260, 130}, {300, 700, 200}}};
  bool transpose = false;
  for (const auto& [m, n, k] : sizes) {
    for (const bool mn_major : {false, true}) {
      GemmShape shape;
      shape.m = m;
      shape.n = n;
      shape.k = k;
      shape.a_m_major = mn_major;
      shape.b_n_major = mn_major != transpose;
      shape.c_dtype = transpose ? DType::kBf16 : DType::kF32;
      EXPECT_EQ(check(kLadder[2], shape, device()), "");
    }
    transpose = !transpose;
  }
}

#if !RUNGS_GPU_CUDA

struct Setting {
  const char* name;
  const char* environment;
};

/// The environment is read when the emulated device is made, so every setting gets a process of its
/// own.
class ScheduleTest : public ::testing::TestWithParam<Setting> {};

TEST_P(ScheduleTest, HoldsUnder) {
  const testing::Rerun run = testing::rerun_self(GetParam().environment, "Schedule.Subject");
  EXPECT_EQ(run.status, 0) << "rerun: " << run.command << "\n" << run.output;
  EXPECT_NE(run.output.find("1 test from 1 test suite ran"), std::string::npos) << run.output;
}

std::string setting_name(const ::testing::TestParamInfo<Setting>& info) { return info.param.name; }

#if defined(RUNGS_SANITIZE_THREAD)
// At eleven seconds each: what differs in who runs beside whom. When copies land is the same to it.
constexpr std::array<Setting, 3> kSettings{
    {{"SevenSms", "RUNGS_EMULATED_SMS=7"},
     {"RandomSchedule1", "RUNGS_EMULATOR_ASYNC=random RUNGS_EMULATOR_SEED=1"},
     {"RandomThreadOrder", "RUNGS_EMULATOR_SEED=4"}}};
#else
constexpr std::array<Setting, 8> kSettings{
    {{"OneSm", "RUNGS_EMULATED_SMS=1"},
     {"SevenSms", "RUNGS_EMULATED_SMS=7"},
     {"AsManySmsAsAnH200", "RUNGS_EMULATED_SMS=132"},
     {"AsyncLandsEarly", "RUNGS_EMULATOR_ASYNC=early"},
     {"RandomSchedule1", "RUNGS_EMULATOR_ASYNC=random RUNGS_EMULATOR_SEED=1"},
     {"RandomSchedule2", "RUNGS_EMULATOR_ASYNC=random RUNGS_EMULATOR_SEED=2"},
     {"RandomScheduleOneSm",
      "RUNGS_EMULATOR_ASYNC=random RUNGS_EMULATOR_SEED=3 RUNGS_EMULATED_SMS=1"},
     {"RandomThreadOrder", "RUNGS_EMULATOR_SEED=4"}}};
#endif

INSTANTIATE_TEST_SUITE_P(Emulator, ScheduleTest, ::testing::ValuesIn(kSettings), setting_name);

#endif

}  // namespace
}  // namespace rungs::gemm
