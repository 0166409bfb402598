#include <rungs/core/error.hpp>
#include <rungs/core/file.hpp>
#include <rungs/training/trainer.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

namespace rungs::training {
namespace {

namespace fs = std::filesystem;

class CorpusFiles : public ::testing::Test {
 protected:
  std::string directory;
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "rungs-corpus-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory = name;
  }
  void TearDown() override { fs::remove_all(directory); }
  [[nodiscard]] std::string write(const std::string& text) const {
    file::write_atomic(directory + "/text", text);
    return directory + "/text";
  }
  static void expect_refused(const std::string& path, int context, ErrorCode code,
                             const char* word) {
    try {
      Corpus::load(path, context);
      ADD_FAILURE() << "loaded " << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_NE(error.message().find(word), std::string::npos) << error.message();
      EXPECT_NE(error.message().find(path), std::string::npos) << error.message();
    }
  }
};

TEST_F(CorpusFiles, TheLastTenthIsHeldOut) {
  std::string text;
  for (int i = 0; i < 1003; ++i) text += static_cast<char>(i * 7);
  const Corpus corpus = Corpus::load(write(text), 8);
  EXPECT_EQ(corpus.name, "text");
  EXPECT_EQ(corpus.train.size(), 903u);
  EXPECT_EQ(corpus.held_out.size(), 100u);
  std::string joined(corpus.train.begin(), corpus.train.end());
  joined.append(corpus.held_out.begin(), corpus.held_out.end());
  EXPECT_EQ(joined, text);
}

TEST_F(CorpusFiles, EntropiesOfKnownTexts) {
  // One byte: nothing to predict.
  const Corpus constant = Corpus::load(write(std::string(1000, 'a')), 8);
  EXPECT_NEAR(constant.unigram_entropy, 0, 1e-12);
  EXPECT_NEAR(constant.bigram_entropy, 0, 1e-12);
  // Two bytes in turn: ln 2 without the last byte, 0 with it.
  std::string turns;
  for (int i = 0; i < 500; ++i) turns += "ab";
  const Corpus alternating = Corpus::load(write(turns), 8);
  EXPECT_NEAR(alternating.unigram_entropy, std::log(2.0), 1e-12);
  EXPECT_NEAR(alternating.bigram_entropy, 0, 1e-12);
  // All 65536 pairs equally often (a de Bruijn-like walk: i, i·k + j): both are ln 256 up to the
  // ends.
  std::string pairs;
  for (int i = 0; i < 256; ++i)
    for (int j = 0; j < 256; ++j) {
      pairs += static_cast<char>(i);
      pairs += static_cast<char>(j);
    }
  const Corpus uniform = Corpus::load(write(pairs), 8);
  EXPECT_NEAR(uniform.unigram_entropy, std::log(256.0), 1e-9);
  EXPECT_GT(uniform.bigram_entropy, 4.5);
  EXPECT_LE(uniform.bigram_entropy, std::log(256.0));
  // By hand: "aab" repeated. After a: a and b half and half; after b: a. H = 2/3·ln 2 but for the
  // last, open pair.
  std::string aab;
  for (int i = 0; i < 10000; ++i) aab += "aab";
  EXPECT_NEAR(Corpus::load(write(aab), 8).bigram_entropy, 2.0 / 3 * std::log(2.0), 1e-4);
}

TEST_F(CorpusFiles, BadFilesAreNamed) {
  expect_refused(directory + "/missing", 8, ErrorCode::kSystem, "");
  expect_refused(directory, 8, ErrorCode::kSystem, "");
  expect_refused(write(""), 8, ErrorCode::kInvalidArgument, "empty");
  expect_refused(write(std::string(89, 'x')), 8, ErrorCode::kInvalidArgument, "at least 90");
  EXPECT_EQ(Corpus::load(write(std::string(90, 'x')), 8).held_out.size(), 9u);
  EXPECT_THROW(Corpus::load(write(std::string(90, 'x')), 0), Error);
}

}  // namespace
}  // namespace rungs::training
