#include <rungs/core/deadline.hpp>
#include <rungs/core/error.hpp>
#include <rungs/core/log.hpp>
#include <rungs/testing/ranks.hpp>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <system_error>
#include <thread>

namespace rungs::testing {
namespace {

constexpr int kThrewStatus = 99;

// One forked rank: its process group and the pipe its exception's text comes through.
struct Child {
  int rank = 0;
  pid_t pid = -1;
  int pipe = -1;
  bool ended = false;
  std::string said;
};

std::string reason(int error) { return std::generic_category().message(error); }

void write_text(int fd, const char* text) {
  std::size_t left = std::strlen(text);
  while (left > 0) {
    const ssize_t written = ::write(fd, text, left);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text += written;
    left -= static_cast<std::size_t>(written);
  }
}

void set_variable(const char* name, int value) { ::setenv(name, std::to_string(value).c_str(), 1); }

[[noreturn]] void be_child(int rank, int ranks, const std::function<void(int)>& body, int pipe,
                           pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a killed test leaves no ranks behind
  if (::getppid() != parent) ::_exit(kThrewStatus);
  set_variable("RANK", rank);
  set_variable("WORLD_SIZE", ranks);
  set_variable("LOCAL_RANK", rank);
  set_variable("LOCAL_WORLD_SIZE", ranks);
  log::set_rank(rank);
  int status = 0;
  try {
    body(rank);
  } catch (const std::exception& error) {
    status = kThrewStatus;
    write_text(pipe, error.what());
  } catch (...) {
    status = kThrewStatus;
    write_text(pipe, "threw something that is no std::exception");
  }
  std::fflush(nullptr);
  // Not exit(): destructors of the parent's statics would run a second time.
  ::_exit(status);
}

Child start(int rank, int ranks, const std::function<void(int)>& body) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    RUNGS_THROW(kSystem, "pipe for rank ", rank, ": ", reason(errno));
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::close(ends[0]);
    be_child(rank, ranks, body, ends[1], parent);
  }
  const int fork_error = errno;
  ::close(ends[1]);
  if (pid < 0) {
    ::close(ends[0]);
    RUNGS_THROW(kSystem, "fork of rank ", rank, ": ", reason(fork_error));
  }
  ::setpgid(pid, pid);  // both sides do it: whoever comes first
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  Child child;
  child.rank = rank;
  child.pid = pid;
  child.pipe = ends[0];
  return child;
}

void drain(Child& child) {
  std::array<char, 4096> buffer{};
  while (true) {
    const ssize_t got = ::read(child.pipe, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    child.said.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

// Ends the child's whole group, reaps the child and says how it ended. The group is killed before
// the child is reaped, while its number cannot yet belong to somebody else.
RankOutcome bury(Child& child) {
  ::kill(-child.pid, SIGKILL);
  ::kill(child.pid, SIGKILL);  // should it not have reached its own group yet
  int status = 0;
  while (::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) continue;
  drain(child);
  ::close(child.pipe);
  child.ended = true;
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    return {child.rank, false, concat("killed by signal ", number, " (", ::strsignal(number), ")")};
  }
  const int code = WEXITSTATUS(status);
  if (code == 0) return {child.rank, true, {}};
  if (code == kThrewStatus && !child.said.empty()) return {child.rank, false, child.said};
  return {child.rank, false, concat("exit status ", code)};
}

bool has_exited(const Child& child) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(child.pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == child.pid;
}

}  // namespace

std::vector<RankOutcome> run_processes(int ranks, const std::function<void(int rank)>& body,
                                       std::chrono::duration<double> limit) {
  RUNGS_REQUIRE(ranks >= 1, "run_processes: ranks must be at least 1, got ", ranks);
  // What is buffered here would be written again by every child.
  std::cout.flush();
  std::fflush(nullptr);
  std::vector<Child> children;
  try {
    for (int rank = 0; rank < ranks; ++rank) children.push_back(start(rank, ranks, body));
  } catch (...) {
    for (Child& child : children) bury(child);
    throw;
  }
  std::vector<RankOutcome> outcomes(children.size());
  const Deadline deadline = Deadline::after(limit);
  std::size_t running = children.size();
  while (running > 0) {
    const bool late = deadline.passed();
    for (std::size_t i = 0; i < children.size(); ++i) {
      Child& child = children[i];
      if (child.ended) continue;
      drain(child);  // a long text would otherwise fill the pipe and stop the child
      const bool exited = has_exited(child);
      if (!exited && !late) continue;
      outcomes[i] = bury(child);
      if (!exited) {
        outcomes[i] = {child.rank, false,
                       concat("still running after ", deadline.waited().count(), " s: killed")};
      }
      --running;
    }
    if (running > 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return outcomes;
}

}  // namespace rungs::testing
