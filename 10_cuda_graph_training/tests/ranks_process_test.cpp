// Ranks as processes: the bits of threads, and one that dies.
#include <rungs/core/deadline.hpp>
#include <rungs/core/error.hpp>
#include <rungs/testing/errors.hpp>
#include <rungs/testing/gpu_test.hpp>
#include <rungs/training/trainer.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <fstream>

#include "detail/fnv.hpp"
#include "folder.hpp"
#include "rank_group.hpp"
#include "trainer_fixture.hpp"

namespace rungs::training {
namespace {

using testing::error_of;
using testing::has;

#define RUNGS_NEEDS_PROCESSES()                                                           \
  if (RUNGS_GPU_CUDA != 0) {                                                              \
    return testing::skip(testing::Lack::kEmulator,                                        \
                         "processes take turns on a GPU, and ranks wait for each other"); \
  }

TrainConfig four_sequences() {
  TrainConfig train = tiny_training();
  train.batch = 4;
  return train;
}

Trainer rank_trainer(bootstrap::Group& group) {
  const gpu::Device device = gpu::Device::open(group.rank() % gpu::Device::count());
  device.make_current();
  return {tiny_model(), four_sequences(), small_corpus(), device, group};
}

std::uint64_t digest_after(bootstrap::Group& group, int steps) {
  Trainer trainer = rank_trainer(group);
  for (int step = 0; step < steps; ++step) trainer.step(Mode::kGraph);
  const std::vector<float> values = trainer.parameters();
  return fnv1a64(values.data(), values.size() * sizeof(float));
}

TEST(RanksAsProcesses, GiveTheBitsOfThreads) {
  RUNGS_NEEDS_PROCESSES();
  const Folder folder;
  const auto file_of = [&](int rank) { return folder.file("digest" + std::to_string(rank)); };
  EXPECT_EQ(testing::failures(in_processes(4, 2,
                                           [&](bootstrap::Group& group) {
                                             std::ofstream(file_of(group.rank()))
                                                 << digest_after(group, 3);
                                           })),
            "");
  EXPECT_EQ(in_threads(4, 2,
                       [&](bootstrap::Group& group) {
                         std::uint64_t theirs = 0;
                         std::ifstream(file_of(group.rank())) >> theirs;
                         EXPECT_EQ(digest_after(group, 3), theirs) << "rank " << group.rank();
                       }),
            "");
}

TEST(RanksAsProcesses, OneKilledEndsAllAndTheLastCheckpointIsGood) {
  RUNGS_NEEDS_PROCESSES();
  const Folder folder;
  const auto began = std::chrono::steady_clock::now();
  const auto outcomes = in_processes(4, 2, [&](bootstrap::Group& group) {
    Trainer trainer = rank_trainer(group);
    for (int step = 0; step < 6; ++step) {
      if (step == 4) trainer.save(folder.path());
      trainer.step(Mode::kGraph);
    }
    group.barrier();  // all have done six steps
    if (group.rank() == 2) std::raise(SIGKILL);
    const std::string text = error_of([&] {
      for (int step = 0; step < 3; ++step) trainer.step(Mode::kGraph);
    });
    if (!has(text, "PeerLost: ") || !has(text, "rank 2")) RUNGS_THROW(kInternal, text);
    throw Error(ErrorCode::kPeerLost, "as it should be", __FILE__, __LINE__);
  });
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  EXPECT_LT(took.count(), 25 * timeout_scale());  // noticed, not waited for
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    EXPECT_TRUE(has(outcomes[rank].text, rank == 2 ? "killed by signal 9" : "as it should be"))
        << outcomes[rank].text;
  }
  EXPECT_EQ(inspect_checkpoint(folder.path()).steps_done, 4);
  EXPECT_EQ(in_threads(4, 2,
                       [&](bootstrap::Group& group) {
                         Trainer trainer = rank_trainer(group);
                         trainer.resume(folder.path());
                         EXPECT_EQ(trainer.steps_done(), 4);
                         trainer.step(Mode::kGraph);
                         trainer.save(folder.path());
                       }),
            "");
  EXPECT_EQ(inspect_checkpoint(folder.path()).steps_done, 5);
}

}  // namespace
}  // namespace rungs::training
