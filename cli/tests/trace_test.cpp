// `rungs trace`: what it writes of one launch, and words that name nothing.
#include "program.hpp"

#include <gtest/gtest.h>
#include <rungs/config.hpp>

namespace rungs::cli {
namespace {

#if RUNGS_GPU_CUDA

TEST(Trace, OnAGpuItSaysWhatToUse) {
  const Ended ended = run({"trace", "gemm_bf16"});
  EXPECT_EQ(ended.status, 2);
  EXPECT_TRUE(contains(ended.err, {"records the emulator", "--preset emulated", "Nsight"}));
}

#else

TEST(Trace, WritesATimelineAPictureAndCounts) {
  const Folder folder;
  const std::string json = folder.file("trace.json");
  const std::string svg = folder.file("trace.svg");
  const Ended ended = run({"trace", "gemm_bf16/tma_wgmma", "--case", "512x256x256", "--out", json,
                           "--svg", svg, "--cta", "1"});
  ASSERT_EQ(ended.status, 0) << ended.out << ended.err;
  EXPECT_EQ(ended.err, "");
  // 2 * 512 * 256 * 256, each operand through TMA at least once
  EXPECT_TRUE(
      contains(ended.out, {"kernel gemm_tma_wgmma", "lands late", json, svg, "67108864 FLOPs",
                           "tma load 2d", "wgmma", "mbarrier.wait", "ui.perfetto.dev"}));
  const std::string text = read_file(json);
  EXPECT_EQ(text.front(), '{');
  EXPECT_TRUE(contains(text, {"\"traceEvents\":[", "\"block (1,0,0)\"", "\"name\":\"warp 0\"",
                              "\"copies under way\"", "\"mma_flops\":67108864"}));
  const std::string picture = read_file(svg);
  EXPECT_EQ(picture.rfind("<svg ", 0), 0u);
  EXPECT_TRUE(contains(
      picture, {"gemm_tma_wgmma, block (1,0,0)", "copies", "warpgroup 1", "phase 0", "</svg>"}));
}

TEST(Trace, SchedulesAndAllBlocks) {
  const Folder folder;
  const std::string json = folder.file("trace.json");
  const Ended early =
      run({"trace", "tma_wgmma", "--out", json, "--schedule", "early", "--cta", "all"},
          {"RUNGS_EMULATED_SMS=4"});
  ASSERT_EQ(early.status, 0) << early.err;
  EXPECT_TRUE(contains(early.out, {"lands early", "4 blocks"}));
  const Ended random = run({"trace", "gemm_bf16", "--out", json, "--schedule", "random", "--seed",
                            "7", "--events", "20"});
  ASSERT_EQ(random.status, 0) << random.err;
  EXPECT_TRUE(contains(random.out, {"random, seed 7", "after the limit of 20", "--events"}));
}

TEST(Trace, WordsThatNameNothingGetTheNearest) {
  const Folder folder;
  const std::string json = folder.file("trace.json");
  struct {
    std::vector<std::string> words;
    std::vector<std::string> said;
  } const complaints[] = {
      {{"gemm_bf17/tma_wgmma"}, {"'gemm_bf17/tma_wgmma'", "did you mean 'gemm_bf16/tma_wgmma'"}},
      {{"gemm_bf16/tma_wgma"}, {"no rung 'tma_wgma'", "did you mean 'tma_wgmma'", "naive, tiled"}},
      {{"gemm_bf16", "--case", "512x256x255"},
       {"no case", "did you mean '512x256x256'", "193x129"}},
      {{"tiled"}, {"several operations", "gemm_bf16/tiled"}},
      {{"gemm_bf16", "--cta", "9,9"}, {"has no block 9,9", "its grid is"}},
      {{"gemm_bf16", "--cta", "1;2"}, {"--cta takes", "'1;2'"}},
      {{"gemm_bf16", "--steps", "9:3"}, {"--steps takes", "'9:3'"}},
      {{"gemm_bf16", "--launch", "3"}, {"has no launch 3", "it launches: 1 gemm_tma_wgmma"}},
      {{"gemm_bf16", "--kernel", "gemm_tma_wgma"},
       {"of 'gemm_tma_wgma'; did you mean 'gemm_tma_wgmma'?"}},
      {{"gemm_bf16", "--schedule", "never"}, {"never", "late"}},
  };
  for (const auto& complaint : complaints) {
    std::vector<std::string> words = {"trace", "--out", json};
    words.insert(words.end(), complaint.words.begin(), complaint.words.end());
    const Ended ended = run(words);
    EXPECT_EQ(ended.status, 2) << ::testing::PrintToString(words);
    EXPECT_TRUE(contains(ended.err, complaint.said)) << ::testing::PrintToString(words);
    EXPECT_EQ(ended.err.rfind("rungs: ", 0), 0u) << ended.err;
  }
}

TEST(Trace, AFileThatCannotBeWrittenIsAnError) {
  const Ended ended = run({"trace", "gemm_bf16", "--out", "/nowhere/trace.json"});
  EXPECT_EQ(ended.status, 1);
  EXPECT_TRUE(contains(ended.err, {"/nowhere/trace.json"}));
}

#endif

}  // namespace
}  // namespace rungs::cli
