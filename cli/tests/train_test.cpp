// `rungs train` on a text of a few kilobytes: progress, checkpoints, interruption, and every bad
// input.
#include "program.hpp"

#include <gtest/gtest.h>
#include <rungs/config.hpp>
#include <rungs/ladder/results.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>
#include <utility>

namespace rungs::cli {
namespace {

std::string small_text() {
  std::string text;
  for (int i = 0; i < 200; ++i)
    text += "one rung above another, " + std::to_string(i * i % 97) + " times.\n";
  return text;
}

/// The smallest model, on `data`, with `more` options.
std::vector<std::string> train(const std::string& data, const std::vector<std::string>& more) {
  std::vector<std::string> words{
      "train", "--data",  data, "--layers", "1",  "--width",   "64", "--heads", "2", "--experts",
      "2",     "--top-k", "1",  "--hidden", "64", "--context", "16", "--batch", "2"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

bool anything_in(const std::string& folder) {
  std::error_code ignored;
  return std::filesystem::exists(folder, ignored) && !std::filesystem::is_empty(folder, ignored);
}

double value_of(const std::vector<ladder::Row>& rows, const std::string& metric) {
  for (const ladder::Row& row : rows) {
    if (row.metric == metric) return row.value;
  }
  ADD_FAILURE() << "no row with metric " << metric;
  return 0;
}

class Train : public ::testing::Test {
 protected:
  Train() { write_file(text_, small_text()); }
  Folder folder_;
  const std::string text_ = folder_.file("text.txt");
  const std::string saved_ = folder_.file("saved");
};

TEST_F(Train, TrainsSavesAndWritesRows) {
  const std::string json = folder_.file("rows.json");
  const Ended ended = run(train(
      text_, {"--steps", "4", "--checkpoint", saved_, "--evaluate-every", "2", "--json", json}));
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_TRUE(contains(ended.out, {"held-out loss", "bigram", "saved in " + saved_}));
  EXPECT_TRUE(lacks(ended.out, "\x1b"));
  EXPECT_TRUE(anything_in(saved_));
  const auto rows = ladder::from_json(read_file(json));
  EXPECT_GT(value_of(rows, "held_out_loss"), 0);
  EXPECT_LT(value_of(rows, "held_out_loss"), 7);
  EXPECT_GT(value_of(rows, "unigram_entropy"), value_of(rows, "bigram_entropy"));
  EXPECT_GT(value_of(rows, "tokens_per_second"), 0);
}

TEST_F(Train, ResumedRunEndsWhereAnUninterruptedOneDoes) {
  const std::string whole = folder_.file("whole.json");
  const std::string halves = folder_.file("halves.json");
  ASSERT_EQ(run(train(text_, {"--steps", "6", "--no-checkpoint", "--json", whole})).status, 0);
  // The schedule of the learning rate spans all steps, so the first half is the same run,
  // interrupted.
  Program first(train(text_, {"--steps", "6", "--checkpoint", saved_, "--checkpoint-every", "1"}));
  while (first.running() && !anything_in(saved_))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  first.send(SIGINT);
  const int status = first.wait().status;
  ASSERT_TRUE(status == 130 || status == 0) << status;  // it may have done all steps by then
  const Ended second = run(train(text_, {"--steps", "6", "--resume", saved_, "--json", halves}));
  ASSERT_EQ(second.status, 0) << second.err;
  EXPECT_TRUE(contains(second.out, {"continued from " + saved_}));
  EXPECT_EQ(value_of(ladder::from_json(read_file(whole)), "held_out_loss"),
            value_of(ladder::from_json(read_file(halves)), "held_out_loss"));
}

TEST_F(Train, InterruptFinishesTheStepSavesAndExits130) {
  Program program(
      train(text_, {"--steps", "1000000", "--checkpoint", saved_, "--checkpoint-every", "1"}));
  while (program.running() && !anything_in(saved_))
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ASSERT_TRUE(program.running()) << program.wait().err;
  program.send(SIGINT);
  const Ended ended = program.wait();
  EXPECT_EQ(ended.status, 130) << ended.err;
  EXPECT_TRUE(contains(ended.out, {"interrupted", "saved in " + saved_, "--resume " + saved_}));
  EXPECT_TRUE(anything_in(saved_));
}

TEST_F(Train, BothModesEndInTheSameBits) {
  double loss[2];
  for (int i = 0; i < 2; ++i) {
    const std::string json = folder_.file("mode.json");
    const Ended ended = run(train(text_, {"--steps", "3", "--no-checkpoint", "--mode",
                                          i == 0 ? "eager" : "graph", "--json", json}));
    ASSERT_EQ(ended.status, 0) << ended.err;
    loss[i] = value_of(ladder::from_json(read_file(json)), "held_out_loss");
  }
  EXPECT_EQ(loss[0], loss[1]);
}

void expect_error(const Ended& ended, const std::string& what) {
  EXPECT_EQ(ended.status, 1) << ended.out << ended.err;
  EXPECT_EQ(ended.err.rfind("rungs: ", 0), 0u) << ended.err;
  EXPECT_TRUE(contains(ended.err, {what}));
  EXPECT_TRUE(lacks(ended.err, "bug"));
  EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
}

TEST_F(Train, BadTextsAreOneClearError) {
  const std::string missing = folder_.file("missing.txt");
  expect_error(run(train(missing, {"--no-checkpoint"})), missing);
  const std::string empty = folder_.file("empty.txt");
  write_file(empty, "");
  expect_error(run(train(empty, {"--no-checkpoint"})), empty);
  const std::string tiny = folder_.file("tiny.txt");
  write_file(tiny, "too short");
  expect_error(run(train(tiny, {"--no-checkpoint"})), tiny);
  const std::string binary = folder_.file("binary.dat");
  write_file(binary, small_text() + std::string(3, '\0') + small_text());
  expect_error(run(train(binary, {"--no-checkpoint"})), "is zero");
  EXPECT_EQ(run(train(binary, {"--no-checkpoint", "--any-bytes", "--steps", "1"})).status, 0);
  expect_error(run(train(folder_.file("."), {"--no-checkpoint"})), folder_.file("."));
}

TEST_F(Train, BadCheckpointsAreOneClearError) {
  const std::string nowhere = folder_.file("nowhere");
  expect_error(run(train(text_, {"--steps", "2", "--resume", nowhere})),
               "there is no checkpoint in '" + nowhere);
  EXPECT_FALSE(std::filesystem::exists(nowhere)) << "a refusal leaves an empty folder";
  ASSERT_EQ(run(train(text_, {"--steps", "1", "--checkpoint", saved_})).status, 0);
  const Ended other = run(train(text_, {"--steps", "2", "--resume", saved_, "--seed", "2"}));
  expect_error(other, "has --seed 1, the command line says --seed 2");
  write_file(text_, small_text() + "something else");
  expect_error(run(train(text_, {"--resume", saved_})), "another text");
}

TEST_F(Train, AnEarlierRunIsNotOverwritten) {
  const std::string file = saved_ + "/checkpoint.bin";
  ASSERT_EQ(run(train(text_, {"--steps", "1", "--checkpoint", saved_})).status, 0);
  const std::string before = read_file(file);
  const Ended refused = run(train(text_, {"--steps", "2", "--checkpoint", saved_}));
  expect_error(refused, file + " holds an earlier run");
  EXPECT_TRUE(contains(refused.err, {"--resume " + saved_, "--checkpoint FOLDER", "--overwrite"}));
  EXPECT_EQ(refused.out, "");
  EXPECT_EQ(read_file(file), before);

  const std::string other = folder_.file("other");
  ASSERT_EQ(run(train(text_, {"--steps", "3", "--checkpoint", other})).status, 0);
  expect_error(run(train(text_, {"--resume", other, "--checkpoint", saved_})), file);
  EXPECT_EQ(read_file(file), before);
  ASSERT_EQ(run(train(text_, {"--steps", "2", "--checkpoint", saved_, "--overwrite"})).status, 0);
  EXPECT_NE(read_file(file), before);
}

TEST_F(Train, AFinishedRunSaysSoAndCanBeMadeLonger) {
  ASSERT_EQ(run(train(text_, {"--steps", "4", "--checkpoint", saved_})).status, 0);
  const std::string json = folder_.file("rows.json");
  // The settings are the checkpoint's: none need be said again.
  const Ended idle = run({"train", "--data", text_, "--resume", saved_, "--json", json});
  ASSERT_EQ(idle.status, 0) << idle.err;
  EXPECT_TRUE(contains(idle.out, {"nothing was left to do: all 4 steps were done before",
                                  "held-out loss", "--resume " + saved_ + " --steps 8"}));
  EXPECT_TRUE(lacks(idle.out, "0 tokens/s"));
  for (const ladder::Row& row : ladder::from_json(read_file(json)))
    EXPECT_TRUE(row.metric != "loss" && row.metric != "tokens_per_second") << row.metric;

  const Ended longer = run({"train", "--data", text_, "--resume", saved_, "--steps", "6"});
  ASSERT_EQ(longer.status, 0) << longer.err;
  EXPECT_TRUE(contains(longer.out, {"4 of 6 steps are done", "longer than the 4 steps", "cosine",
                                    "not be bit for bit", "2 steps at"}));
  const Ended shorter = run({"train", "--data", text_, "--resume", saved_, "--steps", "5"});
  expect_error(shorter, "is one of 6 steps");
  for (const Ended* ended : {&longer, &shorter}) {
    EXPECT_TRUE(lacks(ended->out + ended->err, "train.steps"));
    EXPECT_TRUE(lacks(ended->out + ended->err, "0x"));
  }
}

TEST_F(Train, InterruptEndsTheLastLookAtTheHeldOutText) {
  std::string text;
  while (text.size() < 2000000) text += small_text();
  write_file(text_, text);
  Program program(train(text_, {"--steps", "1", "--checkpoint", saved_}), {"COLUMNS=200"});
  while (program.running() && !std::filesystem::exists(saved_ + "/checkpoint.bin"))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  program.send(SIGINT);
  const Ended ended = program.wait();
  EXPECT_EQ(ended.status, 130) << ended.out << ended.err;
  EXPECT_TRUE(contains(ended.out, {"interrupted", "after step 1 of 1", "held-out text",
                                   "saved in " + saved_, "--resume " + saved_}));
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

TEST_F(Train, RanksAreThreadsOrProcessesWithTheSameBits) {
  const std::string threads = folder_.file("threads.json");
  const std::string processes = folder_.file("processes.json");
  const Ended one = run(train(text_, {"--steps", "4", "--ranks", "2", "--checkpoint", saved_,
                                      "--checkpoint-every", "2", "--json", threads}));
  ASSERT_EQ(one.status, 0) << one.err;
  EXPECT_TRUE(contains(one.out, {"ranks: 2", "held-out loss", "saved in " + saved_}));
  EXPECT_EQ(count_of(one.out, "Training on"), 1u);

  std::vector<std::string> words{"launch", "-n", "2", "--no-prefix", "--", RUNGS_PROGRAM};
  const auto rank =
      train(text_, {"--steps", "4", "--checkpoint", folder_.file("other"), "--json", processes});
  words.insert(words.end(), rank.begin(), rank.end());
  const Ended many = run(words);
#if RUNGS_GPU_CUDA
  return;  // processes take turns on a GPU
#endif
  ASSERT_EQ(many.status, 0) << many.err;
  EXPECT_EQ(count_of(many.out, "Training on"), 1u) << many.out;
  EXPECT_EQ(value_of(ladder::from_json(read_file(threads)), "held_out_loss"),
            value_of(ladder::from_json(read_file(processes)), "held_out_loss"));
}

TEST_F(Train, RanksGoOnAsTheyWereSaved) {
  ASSERT_EQ(
      run(train(text_, {"--steps", "2", "--ranks", "2", "--nodes", "2", "--checkpoint", saved_}))
          .status,
      0);
  // How many they were is in the checkpoint.
  const Ended longer = run({"train", "--data", text_, "--resume", saved_, "--steps", "3"});
  ASSERT_EQ(longer.status, 0) << longer.err;
  EXPECT_TRUE(contains(longer.out, {"2 of 3 steps are done", "ranks: 2, on 2 nodes"}));
  expect_error(run({"train", "--data", text_, "--resume", saved_, "--ranks", "1"}),
               "has --ranks 2, the command line says --ranks 1");
  expect_error(run({"train", "--data", text_, "--resume", saved_, "--nodes", "1"}),
               "has --nodes 2, the command line says --nodes 1");
}

TEST_F(Train, InterruptStopsAllRanksAfterTheSameStep) {
  Program program(train(text_, {"--steps", "1000000", "--ranks", "2", "--checkpoint", saved_,
                                "--checkpoint-every", "1"}));
  while (program.running() && !std::filesystem::exists(saved_ + "/checkpoint.bin"))
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ASSERT_TRUE(program.running()) << program.wait().err;
  program.send(SIGINT);
  const Ended ended = program.wait();
  EXPECT_EQ(ended.status, 130) << ended.err;
  EXPECT_TRUE(contains(ended.out, {"interrupted", "saved in " + saved_, "--resume " + saved_}));
}

TEST_F(Train, ImpossibleRanksAreOneClearError) {
  const auto usage = [&](const Ended& ended, const std::string& what) {
    EXPECT_EQ(ended.status, 2) << ended.err;
    EXPECT_TRUE(contains(ended.err, {what}));
    EXPECT_EQ(count_of(ended.err, "rungs: "), 1u) << ended.err;
    EXPECT_FALSE(std::filesystem::exists(saved_)) << "a refusal leaves an empty folder";
  };
  const std::vector<std::string> here{"--checkpoint", saved_, "--ranks"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), here.begin(), here.end());
    return run(train(text_, more));
  };
  usage(with({"3"}), "--experts must be a multiple of the 3 ranks");
  usage(with({"2", "--batch", "3"}), "--batch");
  usage(with({"2", "--nodes", "3"}), "--ranks must be a multiple of the 3 --nodes");
  std::vector<std::string> words{"launch", "-n", "2", "--no-prefix", "--", RUNGS_PROGRAM};
  const auto rank = train(text_, {"--ranks", "2", "--checkpoint", saved_});
  words.insert(words.end(), rank.begin(), rank.end());
  const Ended launched = run(words);
  EXPECT_EQ(launched.status, 2) << launched.err;
  EXPECT_TRUE(contains(launched.err, {"has started 2 ranks"}));
}

TEST_F(Train, UnwritableTargetsAreFoundBeforeTraining) {
  expect_error(run(train(text_, {"--json", folder_.file("no/such/folder.json")})), "folder.json");
  expect_error(run(train(text_, {"--json", folder_.file(".")})), "folder");
  expect_error(run(train(text_, {"--checkpoint", text_})), text_);
}

TEST_F(Train, ImpossibleModelIsNamedByItsOptions) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{"--context", "16", "--width", "100"}, "--width must be a multiple of 64, got 100"},
      {{"--context", "16", "--experts", "2", "--top-k", "3"}, "--top-k must be 1 to 2, got 3"},
      {{"--context", "16", "--steps", "5", "--warmup", "6"}, "--warmup must be 0 to 5, got 6"}};
  for (const auto& [words, complaint] : cases) {
    std::vector<std::string> all{"train", "--data", text_, "--checkpoint", saved_};
    all.insert(all.end(), words.begin(), words.end());
    const Ended ended = run(all);
    EXPECT_EQ(ended.status, 2) << ended.err;
    EXPECT_TRUE(contains(ended.err, {"rungs: " + complaint, "rungs train --help"}));
    EXPECT_TRUE(lacks(ended.err, "model."));
    EXPECT_FALSE(std::filesystem::exists(saved_)) << "a refusal leaves an empty folder";
  }
}

}  // namespace
}  // namespace rungs::cli
