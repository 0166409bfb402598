#pragma once
/// Running the built program as a user would: words in, exit status and both outputs out.

#include <gtest/gtest.h>
#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace rungs::cli {

struct Ended {
  int status = -1;  ///< exit status; 1000 + signal when a signal ended it
  std::string out;
  std::string err;
};

/// A process of the program with no terminal. Its outputs go to files of a folder that lives as
/// long as the object.
class Program {
 public:
  /// @param environment "NAME=value" set in addition to the test's own
  /// @param out_path where standard output goes instead; then Ended::out stays empty
  explicit Program(const std::vector<std::string>& words,
                   const std::vector<std::string>& environment = {},
                   const std::string& out_path = {});
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  void send(int signal) const;
  [[nodiscard]] bool running();
  /// What it has written so far.
  [[nodiscard]] std::string out_so_far() const;
  [[nodiscard]] std::string err_so_far() const;
  Ended wait();

 private:
  void take(int wait_status);
  std::string folder_;
  pid_t process_ = -1;
  bool ended_ = false;
  int status_ = -1;
};

Ended run(const std::vector<std::string>& words, const std::vector<std::string>& environment = {});

/// A folder that disappears with the object.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// Assertions that show the whole text when they fail.
::testing::AssertionResult contains(const std::string& text, const std::vector<std::string>& parts);
::testing::AssertionResult lacks(const std::string& text, const std::string& part);

void write_file(const std::string& path, const std::string& text);
std::string read_file(const std::string& path);

}  // namespace rungs::cli
