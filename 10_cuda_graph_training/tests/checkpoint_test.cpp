#include <rungs/core/error.hpp>
#include <rungs/core/file.hpp>
#include <rungs/training/trainer.hpp>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>

#include "trainer_fixture.hpp"

namespace rungs::training {
namespace {

namespace fs = std::filesystem;

class Checkpoints : public ::testing::Test {
 protected:
  std::string directory;
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "rungs-checkpoint-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory = name;
  }
  void TearDown() override { fs::remove_all(directory); }
  [[nodiscard]] std::string path() const { return directory + "/checkpoint.bin"; }
  [[nodiscard]] std::vector<std::uint8_t> content() const { return file::read_bytes(path()); }
  void write(const std::vector<std::uint8_t>& bytes) const {
    file::write_atomic(path(), std::as_bytes(std::span<const std::uint8_t>(bytes)));
  }
  /// Resumes and returns the message; the trainer must be as before.
  std::string refusal(Trainer& trainer) const {
    const auto before = trainer.parameters();
    const int steps = trainer.steps_done();
    try {
      trainer.resume(directory);
    } catch (const Error& error) {
      EXPECT_EQ(testing::first_bit_difference(trainer.parameters(), before), "");
      EXPECT_EQ(trainer.steps_done(), steps);
      return error.message();
    }
    return {};
  }
};

TEST_F(Checkpoints, ResumeGivesTheBitsOfAnUninterruptedRun) {
  for (const Mode mode : {Mode::kEager, Mode::kGraph}) {
    Trainer whole = tiny_trainer();
    for (int step = 0; step < 10; ++step) whole.step(mode);
    {
      Trainer first = tiny_trainer();
      for (int step = 0; step < 5; ++step) first.step(mode);
      first.save(directory);
    }
    Trainer second = tiny_trainer();
    second.step(mode);  // a graph captured before the resume must follow it too
    second.resume(directory);
    EXPECT_EQ(second.steps_done(), 5);
    for (int step = 0; step < 5; ++step) second.step(mode);
    EXPECT_EQ(testing::first_bit_difference(second.parameters(), whole.parameters()), "");
    EXPECT_EQ(second.step(mode).loss, whole.step(mode).loss);
  }
}

TEST_F(Checkpoints, SavingChangesNothing) {
  Trainer saved = tiny_trainer(), plain = tiny_trainer();
  for (int step = 0; step < 3; ++step) {
    saved.step(Mode::kGraph);
    plain.step(Mode::kGraph);
    saved.save(directory + "/made/on/the/way");
  }
  EXPECT_EQ(testing::first_bit_difference(saved.parameters(), plain.parameters()), "");
  EXPECT_TRUE(fs::exists(directory + "/made/on/the/way/checkpoint.bin"));
}

TEST_F(Checkpoints, DamageIsNamed) {
  Trainer trainer = tiny_trainer();
  trainer.step(Mode::kEager);
  trainer.save(directory);
  const auto good = content();
  struct Damage {
    const char* word;
    std::function<void(std::vector<std::uint8_t>&)> apply;
  };
  const Damage cases[] = {
      {"truncated", [](auto& b) { b.clear(); }},
      {"truncated", [](auto& b) { b.resize(39); }},
      {"truncated", [](auto& b) { b.resize(b.size() - 1); }},
      {"truncated", [](auto& b) { b.resize(b.size() / 2); }},
      {"truncated", [](auto& b) { b.push_back(0); }},
      {"truncated", [](auto& b) { std::memset(b.data() + 24, 0xff, 8); }},  // count: 2^64 - 1
      {"truncated",
       [](auto& b) { std::memset(b.data() + 12, 0xff, 4); }},  // bytes of the configuration
      {"not a rungs checkpoint", [](auto& b) { b[0] = 'X'; }},
      {"version 2", [](auto& b) { b[8] = 2; }},
      {"checksum", [](auto& b) { b[16] ^= 1; }},               // step
      {"checksum", [](auto& b) { b[32] ^= 1; }},               // the checksum itself
      {"checksum", [](auto& b) { b[60] ^= 1; }},               // configuration
      {"checksum", [](auto& b) { b[b.size() - 1] ^= 0x80; }},  // last moment
      {"checksum", [](auto& b) { b[b.size() / 2] ^= 1; }},
  };
  for (const Damage& damage : cases) {
    auto bytes = good;
    damage.apply(bytes);
    write(bytes);
    const std::string message = refusal(trainer);
    EXPECT_NE(message.find(damage.word), std::string::npos)
        << "'" << message << "' lacks '" << damage.word << "'";
    EXPECT_NE(message.find(path()), std::string::npos) << message;
  }
  write(good);
  EXPECT_EQ(refusal(trainer), "");
}

TEST_F(Checkpoints, AnotherModelsCheckpointIsRefusedByItsFirstDifferentField) {
  tiny_trainer().save(directory);
  const auto refused = [&](const char* field,
                           const std::function<void(ModelConfig&, TrainConfig&)>& change) {
    ModelConfig model = tiny_model();
    TrainConfig train = tiny_training();
    change(model, train);
    Trainer trainer(model, train, small_corpus(), device());
    const std::string message = refusal(trainer);
    EXPECT_NE(message.find(std::string("with ") + field + " = "), std::string::npos) << message;
  };
  refused("model.layers", [](auto& m, auto& t) { m.layers = 1, t.lr = 1; });
  refused("model.width", [](auto& m, auto&) { m.width = 128; });
  refused("model.heads", [](auto& m, auto&) { m.heads = 1; });
  refused("model.experts", [](auto& m, auto&) { m.experts = 3; });
  refused("model.top_k", [](auto& m, auto&) { m.top_k = 1; });
  refused("model.hidden", [](auto& m, auto&) { m.hidden = 128; });
  refused("model.context", [](auto& m, auto&) { m.context = 8; });
  refused("model.seed", [](auto& m, auto&) { m.seed = 9; });
  refused("train.batch", [](auto&, auto& t) { t.batch = 1; });
  refused("train.steps", [](auto&, auto& t) { t.steps = 41; });
  refused("train.warmup_steps", [](auto&, auto& t) { t.warmup_steps = 5; });
  refused("train.lr", [](auto&, auto& t) { t.lr = std::nextafter(t.lr, 1.0f); });
  refused("train.weight_decay", [](auto&, auto& t) { t.weight_decay = 0; });
  refused("train.clip", [](auto&, auto& t) { t.clip = 2; });
  refused("train.aux_weight", [](auto&, auto& t) { t.aux_weight = 0; });
  refused("train.data_seed", [](auto&, auto& t) { t.data_seed = 2; });
  Trainer other_text(tiny_model(), tiny_training(), small_corpus(2), device());
  EXPECT_NE(refusal(other_text).find("another text"), std::string::npos);
}

TEST_F(Checkpoints, RefusalsShowDecimalNumbers) {
  tiny_trainer().save(directory);
  TrainConfig train = tiny_training();
  train.lr = 0.001f;
  Trainer trainer(tiny_model(), train, small_corpus(), device());
  const std::string message = refusal(trainer);
  EXPECT_NE(message.find("train.lr = 0.00300000003, this trainer has 0.00100000005"),
            std::string::npos)
      << message;
}

TEST_F(Checkpoints, TellWhatTheyWereSavedWith) {
  ModelConfig model = tiny_model();
  model.seed = 0xfedcba9876543210u;
  TrainConfig train = tiny_training();
  train.lr = std::nextafter(train.lr, 1.0f);
  train.aux_weight = 0;
  Trainer trainer(model, train, small_corpus(), device());
  trainer.step(Mode::kEager);
  trainer.save(directory);
  const CheckpointInfo info = inspect_checkpoint(directory);
  EXPECT_EQ(info.steps_done, 1);
  EXPECT_EQ(info.model.layers, model.layers);
  EXPECT_EQ(info.model.width, model.width);
  EXPECT_EQ(info.model.heads, model.heads);
  EXPECT_EQ(info.model.experts, model.experts);
  EXPECT_EQ(info.model.top_k, model.top_k);
  EXPECT_EQ(info.model.hidden, model.hidden);
  EXPECT_EQ(info.model.context, model.context);
  EXPECT_EQ(info.model.seed, model.seed);
  EXPECT_EQ(info.train.batch, train.batch);
  EXPECT_EQ(info.train.steps, train.steps);
  EXPECT_EQ(info.train.warmup_steps, train.warmup_steps);
  EXPECT_EQ(info.train.lr, train.lr);
  EXPECT_EQ(info.train.weight_decay, train.weight_decay);
  EXPECT_EQ(info.train.clip, train.clip);
  EXPECT_EQ(info.train.aux_weight, train.aux_weight);
  EXPECT_EQ(info.train.data_seed, train.data_seed);

  auto bytes = content();
  bytes[bytes.size() / 2] ^= 1;
  write(bytes);
  EXPECT_THROW(inspect_checkpoint(directory), Error);
  EXPECT_THROW(inspect_checkpoint(directory + "/nowhere"), Error);
}

TEST_F(Checkpoints, MoreStepsOnlyWhereTheyAreAllowed) {
  Trainer first = tiny_trainer();
  first.step(Mode::kEager);
  first.save(directory);
  TrainConfig train = tiny_training();
  train.steps += 10;
  Trainer longer(tiny_model(), train, small_corpus(), device());
  EXPECT_NE(refusal(longer).find("with train.steps = 40"), std::string::npos);
  longer.resume(directory, Resume::kMoreSteps);
  EXPECT_EQ(longer.steps_done(), 1);
  longer.step(Mode::kEager);
  longer.save(directory);
  // The longer run is a run of its own length: going on with it gives its bits.
  Trainer again(tiny_model(), train, small_corpus(), device());
  again.resume(directory);
  again.step(Mode::kEager);
  longer.step(Mode::kEager);
  EXPECT_EQ(testing::first_bit_difference(again.parameters(), longer.parameters()), "");

  Trainer shorter = tiny_trainer();
  EXPECT_THROW(shorter.resume(directory, Resume::kMoreSteps), Error);
  train.lr *= 2;
  Trainer other(tiny_model(), train, small_corpus(), device());
  EXPECT_THROW(other.resume(directory, Resume::kMoreSteps), Error);
}

TEST_F(Checkpoints, MissingDirectoryIsNamed) {
  Trainer trainer = tiny_trainer();
  try {
    trainer.resume(directory + "/nowhere");
    ADD_FAILURE() << "resumed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kSystem);
    EXPECT_NE(error.message().find(directory + "/nowhere"), std::string::npos) << error.message();
  }
}

// A save that fails half-way, as on a full disk: the file may not grow beyond a limit, so a write
// in the middle fails.
TEST_F(Checkpoints, AnInterruptedSaveLeavesTheOldCheckpoint) {
  Trainer trainer = tiny_trainer();
  trainer.step(Mode::kEager);
  trainer.save(directory);
  const auto good = content();
  trainer.step(Mode::kEager);

  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);  // the write fails with EFBIG instead
  rlimit small = before;
  small.rlim_cur = good.size() / 2;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string message;
  try {
    trainer.save(directory);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kSystem);
    message = error.message();
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, ignored);

  EXPECT_NE(message.find(directory), std::string::npos) << "'" << message << "'";
  EXPECT_EQ(content(), good);
  EXPECT_EQ(std::distance(fs::directory_iterator(directory), fs::directory_iterator()), 1)
      << "something half written";
  Trainer resumed = tiny_trainer();
  resumed.resume(directory);
  EXPECT_EQ(resumed.steps_done(), 1);
}

}  // namespace
}  // namespace rungs::training
