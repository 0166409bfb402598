// A checkpoint of several ranks: whole or not at all, whoever dies and whenever; and what is
// refused. No device: the arrays are made up.
#include "rank_checkpoint.hpp"

#include <rungs/core/file.hpp>
#include <rungs/testing/errors.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "config.hpp"
#include "folder.hpp"
#include "rank_group.hpp"

namespace rungs::training {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using testing::has;

constexpr std::size_t kCount = 1000;

Fields some_fields(int steps = 40) {
  TrainConfig train;
  train.steps = steps;
  Corpus corpus;
  corpus.train.assign(100, 7);
  return fields_of({}, train, corpus);
}

// What rank `rank` holds after `step` steps.
Checkpoint made_up(int rank, std::uint64_t step) {
  const float base = static_cast<float>(rank) * 100.0f + static_cast<float>(step);
  return {.step = step,
          .weights = std::vector<float>(kCount, base),
          .moment1 = std::vector<float>(kCount, base + 0.25f),
          .moment2 = std::vector<float>(kCount, base + 0.5f)};
}

void save(bootstrap::Group& group, const Folder& folder, std::uint64_t step) {
  RankCheckpoints(group).save(folder.path(), some_fields(), made_up(group.rank(), step));
}

// Empty if this rank's part of the folder's checkpoint is that of `step`.
std::string check(bootstrap::Group& group, const Folder& folder, std::uint64_t step) {
  const Checkpoint got =
      RankCheckpoints(group).load(folder.path(), some_fields(), Resume::kSameSteps, kCount);
  const Checkpoint want = made_up(group.rank(), step);
  const bool same = got.step == want.step && got.weights == want.weights &&
                    got.moment1 == want.moment1 && got.moment2 == want.moment2;
  return same ? "" : concat("rank ", group.rank(), " has step ", got.step, ", not ", step);
}

void require_step(bootstrap::Group& group, const Folder& folder, std::uint64_t step) {
  const std::string problem = check(group, folder, step);
  if (!problem.empty()) RUNGS_THROW(kInternal, problem);
}

std::vector<std::string> names_in(const Folder& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder.path()))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(RankCheckpoints, EveryRankGetsItsPartBackAndOldFilesGo) {
  for (const int ranks : {2, 4}) {
    const Folder folder;
    EXPECT_EQ(in_threads(ranks, 2,
                         [&](bootstrap::Group& group) {
                           for (std::uint64_t step = 1; step <= 3; ++step) {
                             save(group, folder, step);
                             require_step(group, folder, step);
                           }
                         }),
              "");
    std::vector<std::string> want;
    for (int rank = 0; rank < ranks; ++rank)
      want.push_back(concat("checkpoint-3-rank", rank, ".bin"));
    want.emplace_back("checkpoint.bin");
    EXPECT_EQ(names_in(folder), want);
    const CheckpointInfo info = inspect_checkpoint(folder.path());
    EXPECT_EQ(info.steps_done, 3);
    EXPECT_EQ(info.nodes, ranks == 2 ? (std::vector<int>{0, 1}) : (std::vector<int>{0, 0, 1, 1}));
    EXPECT_EQ(info.train.steps, 40);
  }
}

// The text that every rank's load() throws; it must be the same but for whose it was.
std::string refusal(const std::vector<int>& nodes, const Folder& folder, const Fields& fields,
                    std::size_t count = kCount) {
  std::vector<std::string> texts(nodes.size());
  EXPECT_EQ(in_threads(nodes,
                       [&](bootstrap::Group& group) {
                         texts[static_cast<std::size_t>(group.rank())] = error_of([&] {
                           (void)RankCheckpoints(group).load(folder.path(), fields,
                                                             Resume::kSameSteps, count);
                         });
                         // The group is fit for more.
                         group.barrier();
                       }),
            "");
  for (const std::string& text : texts) EXPECT_NE(text, "nothing");
  return texts.back();
}

TEST(RankCheckpoints, OtherRanksAreRefusedNamingBoth) {
  const Folder folder;
  EXPECT_EQ(in_threads(4, 2, [&](bootstrap::Group& group) { save(group, folder, 5); }), "");
  const std::string saved = "was saved by 4 ranks on nodes 0 0 1 1, this trainer is ";
  EXPECT_TRUE(has(refusal({0, 1}, folder, some_fields()), saved + "2 ranks on nodes 0 1"));
  EXPECT_TRUE(has(refusal({0, 1, 0, 1}, folder, some_fields()), saved + "4 ranks on nodes 0 1 0 1"))
      << refusal({0, 1, 0, 1}, folder, some_fields());
  EXPECT_TRUE(
      has(refusal({0, 0, 0, 0}, folder, some_fields()), saved + "4 ranks on nodes 0 0 0 0"));
  EXPECT_TRUE(has(error_of([&] {
                    (void)read_checkpoint(folder.path(), some_fields(), Resume::kSameSteps, kCount);
                  }),
                  saved + "one rank"));
  // And the other way round: one rank's is not for two.
  const Folder alone;
  write_checkpoint(alone.path(), some_fields(), made_up(0, 1));
  EXPECT_TRUE(has(refusal({0, 0}, alone, some_fields()),
                  "was saved by one rank, this trainer is 2 ranks on nodes 0 0"));
  EXPECT_TRUE(has(refusal({0, 0, 1, 1}, folder, some_fields(41)), "train.steps = 40"));
  EXPECT_TRUE(has(refusal({0, 0, 1, 1}, folder, some_fields(), kCount + 1), "holds 1000 param"));
}

TEST(RankCheckpoints, DamageOnOneRankIsRefusedByAll) {
  const Folder folder;
  EXPECT_EQ(in_threads(2, 1, [&](bootstrap::Group& group) { save(group, folder, 5); }), "");
  const std::string victim = folder.file("checkpoint-1-rank0.bin");
  const auto good = file::read_bytes(victim);
  const auto write = [&](const std::vector<std::uint8_t>& bytes) {
    file::write_atomic(victim, std::as_bytes(std::span(bytes)));
  };
  auto bad = good;
  bad[bad.size() / 2] ^= 1;
  write(bad);
  // Rank 1 speaks of rank 0's file.
  EXPECT_TRUE(has(refusal({0, 0}, folder, some_fields()), "rank 0: " + victim + ": damaged"));
  EXPECT_TRUE(has(error_of([&] { (void)inspect_checkpoint(folder.path()); }), "damaged"));

  // A whole file, but another one: rank 1's, and that of another save.
  write(file::read_bytes(folder.file("checkpoint-1-rank1.bin")));
  EXPECT_TRUE(has(refusal({0, 0}, folder, some_fields()), "is not the file that"));
  EXPECT_TRUE(has(error_of([&] { (void)inspect_checkpoint(folder.path()); }), "is not the file"));

  fs::remove(victim);
  EXPECT_TRUE(has(refusal({0, 0}, folder, some_fields()), "System: rank 0: "));
  write(good);
  EXPECT_EQ(in_threads(2, 1, [&](bootstrap::Group& group) { require_step(group, folder, 5); }), "");

  // A damaged manifest is refused, and replaced by the next save.
  auto manifest = file::read_bytes(checkpoint_path(folder.path()));
  manifest.back() ^= 1;
  file::write_atomic(checkpoint_path(folder.path()), std::as_bytes(std::span(manifest)));
  EXPECT_TRUE(has(refusal({0, 0}, folder, some_fields()), "checkpoint.bin: damaged"));
  EXPECT_EQ(in_threads(2, 1,
                       [&](bootstrap::Group& group) {
                         save(group, folder, 6);
                         require_step(group, folder, 6);
                       }),
            "");
}

TEST(RankCheckpoints, ASaveThatFailsOnOneRankFailsOnAllAndLeavesTheOldOne) {
  const Folder folder;
  EXPECT_EQ(in_threads(4, 2, [&](bootstrap::Group& group) { save(group, folder, 5); }), "");
  const auto before = names_in(folder);
  // Rank 2 finds a folder where its next file should go.
  fs::create_directory(folder.file("checkpoint-2-rank2.bin"));
  std::vector<std::string> texts(4);
  EXPECT_EQ(in_threads(4, 2,
                       [&](bootstrap::Group& group) {
                         texts[static_cast<std::size_t>(group.rank())] =
                             error_of([&] { save(group, folder, 6); });
                         require_step(group, folder, 5);
                       }),
            "");
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    EXPECT_TRUE(has(texts[rank], "System: ")) << texts[rank];
    EXPECT_TRUE(has(texts[rank], "checkpoint-2-rank2.bin")) << texts[rank];
    EXPECT_EQ(has(texts[rank], "rank 2: "), rank != 2) << texts[rank];
  }
  fs::remove(folder.file("checkpoint-2-rank2.bin"));
  EXPECT_EQ(names_in(folder), before);
  EXPECT_EQ(in_threads(4, 2,
                       [&](bootstrap::Group& group) {
                         save(group, folder, 6);
                         require_step(group, folder, 6);
                       }),
            "");
}

TEST(RankCheckpoints, OneRanksCheckpointReplacesThatOfSeveralAndBack) {
  const Folder folder;
  EXPECT_EQ(in_threads(2, 1, [&](bootstrap::Group& group) { save(group, folder, 5); }), "");
  // Not ours, whatever it is: it stays.
  std::ofstream(folder.file("checkpoint-1-rank0.bin.txt")) << "notes";
  write_checkpoint(folder.path(), some_fields(), made_up(0, 7));
  EXPECT_EQ(names_in(folder),
            (std::vector<std::string>{"checkpoint-1-rank0.bin.txt", "checkpoint.bin"}));
  EXPECT_EQ(read_checkpoint(folder.path(), some_fields(), Resume::kSameSteps, kCount).step, 7u);
  EXPECT_EQ(in_threads(2, 1,
                       [&](bootstrap::Group& group) {
                         save(group, folder, 8);
                         require_step(group, folder, 8);
                       }),
            "");
}

// A rank dies at some moment of many saves, again and again: what stands is always whole.
TEST(RankCheckpoints, ARankKilledAtAnyMomentLeavesAWholeCheckpoint) {
  const Folder folder;
  std::uint64_t steps_seen = 0;
  for (int round = 0; round < 8; ++round) {
    const int victim = round % 2;
    const auto outcomes = in_processes(2, 1, [&](bootstrap::Group& group) {
      if (group.rank() == victim) {
        std::thread([round] {
          std::this_thread::sleep_for(std::chrono::milliseconds(40 + 7 * round));
          std::raise(SIGKILL);
        }).detach();
      }
      for (std::uint64_t step = 1; step < 1000000; ++step) {
        if (has(error_of([&] { save(group, folder, step); }), "PeerLost")) return;
      }
      RUNGS_THROW(kInternal, "nobody was lost");
    });
    EXPECT_TRUE(has(outcomes[static_cast<std::size_t>(victim)].text, "killed by signal 9"));
    EXPECT_EQ(outcomes[static_cast<std::size_t>(1 - victim)].text, "");
    if (!fs::exists(checkpoint_path(folder.path()))) continue;  // killed before the first
    const CheckpointInfo info = inspect_checkpoint(folder.path());
    steps_seen += static_cast<std::uint64_t>(info.steps_done);
    EXPECT_EQ(in_threads(2, 1,
                         [&](bootstrap::Group& group) {
                           require_step(group, folder, static_cast<std::uint64_t>(info.steps_done));
                         }),
              "");
  }
  EXPECT_GT(steps_seen, 0u) << "no save was ever done: the test kills too early";
}

}  // namespace
}  // namespace rungs::training
