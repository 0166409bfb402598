#include <rungs/core/env.hpp>
#include <rungs/core/error.hpp>
#include <rungs/testing/scoped_env.hpp>

#include <gtest/gtest.h>

#include <string>

namespace rungs {
namespace {

constexpr const char* kName = "RUNGS_TEST_VARIABLE";

std::string message_of(auto&& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.message();
  }
  return "no error";
}

TEST(Env, UnsetAndEmptyGiveTheDefault) {
  testing::ScopedEnv scope;
  scope.unset(kName);
  EXPECT_EQ(env::integer(kName, 7, 0, 10), 7);
  EXPECT_EQ(env::string(kName, "x"), "x");
  EXPECT_TRUE(env::flag(kName, true));
  EXPECT_EQ(env::number(kName, 0.5, 0, 1), 0.5);
  scope.set(kName, "");
  EXPECT_EQ(env::integer(kName, 7, 0, 10), 7);
  EXPECT_FALSE(env::text(kName).has_value());
}

TEST(Env, IntegersAreWholeAndInRange) {
  testing::ScopedEnv scope;
  scope.set(kName, "10");
  EXPECT_EQ(env::integer(kName, 7, 0, 10), 10);
  scope.set(kName, "-3");
  EXPECT_EQ(env::integer(kName, 7, -3, 10), -3);
  for (const char* bad : {"11", "-4", "1.5", "ten", "5 ", "99999999999999999999", "0x5"}) {
    scope.set(kName, bad);
    EXPECT_EQ(message_of([] { env::integer(kName, 7, -3, 10); }),
              std::string("environment variable RUNGS_TEST_VARIABLE is '") + bad +
                  "': it must be a whole number from -3 to 10");
  }
}

TEST(Env, NumbersAreFiniteAndInRange) {
  testing::ScopedEnv scope;
  scope.set(kName, "2.5e-1");
  EXPECT_EQ(env::number(kName, 0, 0, 1), 0.25);
  for (const char* bad : {"nan", "inf", "1.5", "0.5x", "-0.1"}) {
    scope.set(kName, bad);
    EXPECT_NE(message_of([] { env::number(kName, 0, 0, 1); }).find(bad), std::string::npos);
  }
}

TEST(Env, FlagsHaveFourSpellingsEach) {
  testing::ScopedEnv scope;
  for (const char* yes : {"1", "true", "yes", "on"}) {
    scope.set(kName, yes);
    EXPECT_TRUE(env::flag(kName, false)) << yes;
  }
  for (const char* no : {"0", "false", "no", "off"}) {
    scope.set(kName, no);
    EXPECT_FALSE(env::flag(kName, true)) << no;
  }
  scope.set(kName, "maybe");
  EXPECT_NE(message_of([] { env::flag(kName, true); }).find("'maybe'"), std::string::npos);
}

// Launchers' variables, without those of whatever runs this test.
class Ranks : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name :
         {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
          "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
          "OMPI_COMM_WORLD_LOCAL_SIZE", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID",
          "MPI_LOCALNRANKS", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
          "SLURM_STEP_TASKS_PER_NODE", "SLURM_NODEID"}) {
      scope_.unset(name);
    }
  }
  testing::ScopedEnv scope_;
};

TEST_F(Ranks, NobodyLaunchedUs) {
  const RankEnvironment ranks = RankEnvironment::read();
  EXPECT_EQ(ranks.rank, 0);
  EXPECT_EQ(ranks.world_size, 1);
  EXPECT_EQ(ranks.local_size, 1);
  EXPECT_EQ(ranks.launcher, "");
  EXPECT_EQ(ranks.master_address, "127.0.0.1");
  EXPECT_EQ(ranks.master_port, 29500);
}

TEST_F(Ranks, Torchrun) {
  scope_.set("RANK", "5");
  scope_.set("WORLD_SIZE", "8");
  scope_.set("LOCAL_RANK", "1");
  scope_.set("LOCAL_WORLD_SIZE", "4");
  scope_.set("MASTER_ADDR", "node0");
  scope_.set("MASTER_PORT", "1234");
  const RankEnvironment ranks = RankEnvironment::read();
  EXPECT_EQ(ranks.launcher, "torchrun");
  EXPECT_EQ(ranks.rank, 5);
  EXPECT_EQ(ranks.world_size, 8);
  EXPECT_EQ(ranks.local_rank, 1);
  EXPECT_EQ(ranks.local_size, 4);
  EXPECT_EQ(ranks.master_address, "node0");
  EXPECT_EQ(ranks.master_port, 1234);
}

TEST_F(Ranks, OnlyRankAndSizeMeansOneHost) {
  scope_.set("RANK", "2");
  scope_.set("WORLD_SIZE", "4");
  const RankEnvironment ranks = RankEnvironment::read();
  EXPECT_EQ(ranks.local_rank, 2);
  EXPECT_EQ(ranks.local_size, 4);
}

TEST_F(Ranks, OpenMpiAndMpich) {
  scope_.set("PMI_RANK", "0");
  scope_.set("PMI_SIZE", "2");
  scope_.set("MPI_LOCALRANKID", "0");
  scope_.set("MPI_LOCALNRANKS", "2");
  EXPECT_EQ(RankEnvironment::read().world_size, 2);
  scope_.set("OMPI_COMM_WORLD_RANK", "3");
  scope_.set("OMPI_COMM_WORLD_SIZE", "4");
  scope_.set("OMPI_COMM_WORLD_LOCAL_RANK", "3");
  scope_.set("OMPI_COMM_WORLD_LOCAL_SIZE", "4");
  const RankEnvironment ranks = RankEnvironment::read();
  EXPECT_EQ(ranks.launcher, "mpirun");
  EXPECT_EQ(ranks.rank, 3);
}

TEST_F(Ranks, SrunCountsTheTasksOfItsNode) {
  scope_.set("SLURM_PROCID", "9");
  scope_.set("SLURM_STEP_NUM_TASKS", "11");
  scope_.set("SLURM_LOCALID", "1");
  scope_.set("SLURM_NODEID", "2");
  scope_.set("SLURM_STEP_TASKS_PER_NODE", "4(x2),3");
  scope_.set("MASTER_ADDR", "10.0.0.1");
  const RankEnvironment ranks = RankEnvironment::read();
  EXPECT_EQ(ranks.launcher, "srun");
  EXPECT_EQ(ranks.local_size, 3);
  scope_.set("SLURM_NODEID", "1");
  EXPECT_EQ(RankEnvironment::read().local_size, 4);
  for (const char* bad : {"", "4", "x", "4(x", "4(x2)3", "0(x3)"}) {
    scope_.set("SLURM_NODEID", "5");
    scope_.set("SLURM_STEP_TASKS_PER_NODE", bad);
    if (*bad == '\0') continue;
    EXPECT_NE(message_of([] { RankEnvironment::read(); }).find("SLURM_STEP_TASKS_PER_NODE"),
              std::string::npos)
        << bad;
  }
}

TEST_F(Ranks, AnSbatchScriptIsNoRank) {
  scope_.set("SLURM_PROCID", "0");
  EXPECT_EQ(RankEnvironment::read().launcher, "");
}

TEST_F(Ranks, ErrorsNameTheVariable) {
  scope_.set("RANK", "0");
  EXPECT_NE(
      message_of([] { RankEnvironment::read(); }).find("WORLD_SIZE is not set although RANK is"),
      std::string::npos);
  scope_.set("WORLD_SIZE", "2");
  scope_.set("RANK", "2");
  EXPECT_NE(message_of([] { RankEnvironment::read(); }).find("RANK is '2'"), std::string::npos);
  scope_.set("RANK", "1");
  scope_.set("LOCAL_WORLD_SIZE", "1");
  scope_.set("LOCAL_RANK", "1");
  EXPECT_NE(message_of([] { RankEnvironment::read(); }).find("LOCAL_RANK is '1': this host has 1"),
            std::string::npos);
  scope_.set("LOCAL_RANK", "0");
  EXPECT_NE(message_of([] { RankEnvironment::read(); }).find("MASTER_ADDR is not set"),
            std::string::npos);
  scope_.set("MASTER_ADDR", "a");
  scope_.set("MASTER_PORT", "70000");
  EXPECT_NE(message_of([] { RankEnvironment::read(); }).find("MASTER_PORT is '70000'"),
            std::string::npos);
}

}  // namespace
}  // namespace rungs
