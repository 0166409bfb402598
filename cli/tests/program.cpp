#include "program.hpp"

#include <rungs/core/error.hpp>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

extern char** environ;

namespace rungs::cli {
namespace {

std::string make_folder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "rungs-cli-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr)
    RUNGS_THROW(kSystem, "mkdtemp ", pattern, ": ", std::strerror(errno));
  return pattern;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

/// The test's environment with `changes` in place of what they name.
std::vector<std::string> changed_environment(const std::vector<std::string>& changes) {
  std::vector<std::string> result = changes;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('=') + 1);
    bool replaced = false;
    for (const std::string& change : changes) replaced = replaced || change.rfind(name, 0) == 0;
    if (!replaced) result.push_back(text);
  }
  return result;
}

}  // namespace

Program::Program(const std::vector<std::string>& words, const std::vector<std::string>& environment,
                 const std::string& out_path)
    : folder_(make_folder()) {
  // Everything that allocates happens before fork().
  std::vector<std::string> texts{RUNGS_PROGRAM};
  texts.insert(texts.end(), words.begin(), words.end());
  std::vector<std::string> variables = changed_environment(environment);
  const std::vector<char*> arguments = pointers(texts);
  const std::vector<char*> values = pointers(variables);
  const std::string out = out_path.empty() ? folder_ + "/out" : out_path;
  const std::string err = folder_ + "/err";
  process_ = fork();
  if (process_ < 0) RUNGS_THROW(kSystem, "fork: ", std::strerror(errno));
  if (process_ == 0) {
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    dup2(open(out.c_str(), O_CREAT | O_WRONLY, 0600), STDOUT_FILENO);
    dup2(open(err.c_str(), O_CREAT | O_WRONLY, 0600), STDERR_FILENO);
    execve(RUNGS_PROGRAM, arguments.data(), values.data());
    _exit(127);
  }
}

Program::~Program() {
  if (!ended_) {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void Program::send(int signal) const { kill(process_, signal); }

void Program::take(int wait_status) {
  ended_ = true;
  status_ = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 1000 + WTERMSIG(wait_status);
}

bool Program::running() {
  int wait_status = 0;
  if (!ended_ && waitpid(process_, &wait_status, WNOHANG) == process_) take(wait_status);
  return !ended_;
}

std::string Program::out_so_far() const { return read_file(folder_ + "/out"); }
std::string Program::err_so_far() const { return read_file(folder_ + "/err"); }

Ended Program::wait() {
  int wait_status = 0;
  if (!ended_ && waitpid(process_, &wait_status, 0) == process_) take(wait_status);
  return {status_, read_file(folder_ + "/out"), read_file(folder_ + "/err")};
}

Ended run(const std::vector<std::string>& words, const std::vector<std::string>& environment) {
  return Program(words, environment).wait();
}

Folder::Folder() : path_(make_folder()) {}
Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

::testing::AssertionResult contains(const std::string& text,
                                    const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    if (text.find(part) == std::string::npos) {
      return ::testing::AssertionFailure() << "'" << part << "' is missing in:\n" << text;
    }
  }
  return ::testing::AssertionSuccess();
}

::testing::AssertionResult lacks(const std::string& text, const std::string& part) {
  if (text.find(part) == std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "'" << part << "' stands in:\n" << text;
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) RUNGS_THROW(kSystem, "cannot write ", path);
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace rungs::cli
