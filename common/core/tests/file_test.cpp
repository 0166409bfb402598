#include <rungs/core/error.hpp>
#include <rungs/core/file.hpp>

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace rungs {
namespace {

namespace fs = std::filesystem;

// A folder of its own for every test.
class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "rungs-file-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  std::string folder_;
};

std::string system_error(auto&& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kSystem);
    return error.message();
  }
  return "no error";
}

TEST_F(Files, WhatIsWrittenIsRead) {
  std::string content(300000, '\0');
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 31);
  file::write_atomic(path("a"), content);
  EXPECT_EQ(file::read_text(path("a")), content);
  const std::vector<std::uint8_t> bytes = file::read_bytes(path("a"));
  ASSERT_EQ(bytes.size(), content.size());
  EXPECT_EQ(bytes[1], 31);
  file::write_atomic(path("a"), std::string_view("short"));
  EXPECT_EQ(file::read_text(path("a")), "short");
  EXPECT_EQ(entries(), 1u) << "a temporary file was left over";
}

TEST_F(Files, EmptyFile) {
  file::write_atomic(path("empty"), std::string_view());
  EXPECT_EQ(file::read_text(path("empty")), "");
}

TEST_F(Files, ReadingErrorsNamePathAndReason) {
  EXPECT_EQ(system_error([&] { file::read_text(path("none")); }),
            "cannot open " + path("none") + ": No such file or directory");
  EXPECT_EQ(system_error([&] { file::read_text(folder_); }),
            "cannot read " + folder_ + ": it is a folder");
  EXPECT_EQ(system_error([] { file::read_text("/dev/zero"); }),
            "cannot read /dev/zero: it is neither a file nor a pipe");
}

TEST_F(Files, WritingIntoNoFolderIsAnError) {
  EXPECT_EQ(system_error([&] { file::write_atomic(path("no/where"), std::string_view("x")); }),
            "cannot write " + path("no/where") + ": No such file or directory");
}

TEST_F(Files, ATargetThatIsAFolderStaysAndNothingIsLeft) {
  fs::create_directory(path("folder"));
  EXPECT_NE(system_error([&] { file::write_atomic(path("folder"), std::string_view("x")); }),
            "no error");
  EXPECT_EQ(entries(), 1u);
}

// A file-size limit fails write() half-way, as a full disk does.
TEST_F(Files, AFailedWriteLeavesTheOldFile) {
  file::write_atomic(path("a"), std::string_view("old"));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit tight = before;
  tight.rlim_cur = 4096;
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  const std::string message =
      system_error([&] { file::write_atomic(path("a"), std::string(100000, 'x')); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(message, "cannot write " + path("a") + ": File too large; what was there is unchanged");
  EXPECT_EQ(file::read_text(path("a")), "old");
  EXPECT_EQ(entries(), 1u) << "a temporary file was left over";
}

TEST_F(Files, Directories) {
  file::make_directories(path("x/y/z"));
  file::make_directories(path("x/y/z"));
  EXPECT_TRUE(fs::is_directory(path("x/y/z")));
  file::write_atomic(path("plain"), std::string_view("x"));
  EXPECT_NE(system_error([&] { file::make_directories(path("plain")); }).find(path("plain")),
            std::string::npos);
  EXPECT_NE(
      system_error([&] { file::make_directories(path("plain/below")); }).find(path("plain/below")),
      std::string::npos);
}

}  // namespace
}  // namespace rungs
