#include "launcher.hpp"

#include "interrupt.hpp"
#include "screen.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <rungs/core/error.hpp>
#include <rungs/core/random_bytes.hpp>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

namespace rungs::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPollMilliseconds = 20;
constexpr int kNotStarted = 127;  // as a shell says it
/// Output still in the pipes after a rank ended: read for so long, since a process that it left
/// behind may hold the pipe open.
constexpr std::chrono::milliseconds kLastWords{200};

[[noreturn]] void fail(const char* what) {
  RUNGS_THROW(kSystem, "launch: ", what, " failed: ", std::strerror(errno));
}

std::string random_secret() {
  std::array<std::byte, 16> bytes{};
  fill_random(bytes);
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", std::to_integer<int>(byte));
  return text;
}

/// A port that was free a moment ago: rank 0 binds it next.
int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) fail("socket()");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  const bool bound = bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  close(fd);
  if (!bound) fail("bind()");
  return ntohs(address.sin_port);
}

/// One of a rank's two outputs: bytes in, whole lines out.
class LinePipe {
 public:
  LinePipe(int read_end, int target, std::string prefix)
      : fd_(read_end),
        target_(target),
        prefix_(std::move(prefix)) {}
  [[nodiscard]] int fd() const { return fd_; }

  /// Reads what is there. False at the end.
  bool drain() {
    std::array<char, 1 << 16> bytes;
    while (true) {
      const ssize_t count = read(fd_, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) return true;
      if (count <= 0) {
        finish();
        return false;
      }
      partial_.append(bytes.data(), static_cast<std::size_t>(count));
      write_lines();
    }
  }
  /// Writes what is left of a last line and closes.
  void finish() {
    if (fd_ < 0) return;
    if (!partial_.empty()) {
      partial_ += '\n';
      write_lines();
    }
    close(fd_);
    fd_ = -1;
  }

 private:
  void write_lines() {
    std::string out;
    std::size_t begin = 0;
    // A bar that redraws itself ends its lines with \r: each state is a line here.
    for (std::size_t end = 0; (end = partial_.find_first_of("\r\n", begin)) != std::string::npos;
         begin = end + 1) {
      if (end == begin && partial_[end] == '\r') continue;
      out += prefix_;
      out.append(partial_, begin, end - begin);
      out += '\n';
    }
    partial_.erase(0, begin);
    std::string_view left = out;
    while (!left.empty()) {
      const ssize_t count = ::write(target_, left.data(), left.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return;  // the reader is gone: the ranks' own status still counts
      left.remove_prefix(static_cast<std::size_t>(count));
    }
  }

  int fd_;
  int target_;
  std::string prefix_;
  std::string partial_;
};

struct Rank {
  int number = 0;  // in the whole job
  pid_t process = -1;
  std::vector<LinePipe> pipes;
  std::optional<int> status;  // once ended: exit status or 128 + signal
};

std::vector<std::string> environment_of(const LaunchPlan& plan, int local) {
  const int rank = plan.node * plan.local_ranks + local;
  return {fmt::format("RANK={}", rank),
          fmt::format("WORLD_SIZE={}", plan.nodes * plan.local_ranks),
          fmt::format("LOCAL_RANK={}", local),
          fmt::format("LOCAL_WORLD_SIZE={}", plan.local_ranks),
          fmt::format("GROUP_RANK={}", plan.node),
          fmt::format("MASTER_ADDR={}", plan.master_address),
          fmt::format("MASTER_PORT={}", plan.master_port),
          fmt::format("RUNGS_SECRET={}", plan.secret)};
}

[[noreturn]] void become(const std::vector<char*>& words, std::vector<std::string>& environment,
                         int out, int err, int report, pid_t parent) {
  setpgid(0, 0);  // so that whatever the rank starts ends with it
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kNotStarted);  // the launcher died before prctl()
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, 0);
  dup2(out, 1);
  dup2(err, 2);
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  for (std::string& variable : environment) putenv(variable.data());
  execvp(words[0], words.data());
  const int error = errno;
  [[maybe_unused]] const ssize_t told = ::write(report, &error, sizeof(error));
  _exit(kNotStarted);
}

/// Starts one rank. `report` closes at exec() or brings the errno that prevented it.
Rank start(const LaunchPlan& plan, int local) {
  Rank rank;
  rank.number = plan.node * plan.local_ranks + local;
  std::array<int, 2> out{}, err{}, report{};
  if (pipe2(out.data(), O_CLOEXEC) != 0 || pipe2(err.data(), O_CLOEXEC) != 0 ||
      pipe2(report.data(), O_CLOEXEC) != 0) {
    fail("pipe2()");
  }
  std::vector<std::string> words = plan.words;
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  std::vector<std::string> environment = environment_of(plan, local);
  const pid_t parent = getpid();
  rank.process = fork();
  if (rank.process < 0) fail("fork()");
  if (rank.process == 0) become(pointers, environment, out[1], err[1], report[1], parent);
  for (const int fd : {out[1], err[1], report[1]}) close(fd);
  int error = 0;
  ssize_t count = 0;
  while ((count = read(report[0], &error, sizeof(error))) < 0 && errno == EINTR) {
  }
  close(report[0]);
  const std::string prefix = plan.prefix ? fmt::format("[rank {}] ", rank.number) : "";
  rank.pipes.emplace_back(out[0], 1, prefix);
  rank.pipes.emplace_back(err[0], 2, prefix);
  for (const LinePipe& pipe : rank.pipes) fcntl(pipe.fd(), F_SETFL, O_NONBLOCK);
  if (count > 0) {
    waitpid(rank.process, nullptr, 0);
    for (LinePipe& pipe : rank.pipes) pipe.finish();
    RUNGS_THROW(kInvalidArgument, "launch: cannot run '", plan.words[0],
                "': ", std::strerror(error));
  }
  return rank;
}

void signal_all(const std::vector<Rank>& ranks, int number) {
  for (const Rank& rank : ranks) {
    if (!rank.status) kill(-rank.process, number);
  }
}

/// Waits for output for a moment and hands it on.
void relay(std::vector<Rank>& ranks) {
  std::vector<pollfd> polled;
  std::vector<LinePipe*> pipes;
  for (Rank& rank : ranks) {
    for (LinePipe& pipe : rank.pipes) {
      if (pipe.fd() < 0) continue;
      polled.push_back({pipe.fd(), POLLIN, 0});
      pipes.push_back(&pipe);
    }
  }
  if (poll(polled.data(), polled.size(), kPollMilliseconds) <= 0) return;
  for (std::size_t i = 0; i < polled.size(); ++i) {
    if (polled[i].revents != 0) pipes[i]->drain();
  }
}

/// Notes who has ended. Returns the first that failed in this round.
const Rank* reap(std::vector<Rank>& ranks) {
  const Rank* failed = nullptr;
  for (Rank& rank : ranks) {
    int status = 0;
    if (rank.status || waitpid(rank.process, &status, WNOHANG) != rank.process) continue;
    rank.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (*rank.status != 0 && failed == nullptr) failed = &rank;
  }
  return failed;
}

bool all_ended(const std::vector<Rank>& ranks) {
  for (const Rank& rank : ranks) {
    if (!rank.status) return false;
  }
  return true;
}

bool all_silent(const std::vector<Rank>& ranks) {
  for (const Rank& rank : ranks) {
    for (const LinePipe& pipe : rank.pipes) {
      if (pipe.fd() >= 0) return false;
    }
  }
  return true;
}

std::string how_it_ended(int status) {
  if (status <= 128) return fmt::format("exit status {}", status);
  return fmt::format("signal {} ({})", status - 128, strsignal(status - 128));
}

/// Stays until all have ended; returns what launch() returns.
int supervise(std::vector<Rank>& ranks, const LaunchPlan& plan) {
  const InterruptGuard interrupt;
  int result = 0;
  int handed_on = 0;
  std::optional<Clock::time_point> kill_at;
  const auto begin_end = [&](int number) {
    signal_all(ranks, number);
    kill_at = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                 std::chrono::duration<double>(plan.grace_seconds));
  };
  while (!all_ended(ranks)) {
    relay(ranks);
    if (const Rank* failed = reap(ranks); failed != nullptr && result == 0) {
      result = *failed->status;
      fmt::print(stderr, "rungs: rank {} ended with {}; the others are ended, too\n",
                 failed->number, how_it_ended(result));
      if (!kill_at) begin_end(SIGTERM);
    }
    if (const int number = InterruptGuard::signal(); number != 0 && handed_on == 0) {
      handed_on = number;
      if (result == 0) result = 128 + number;
      begin_end(number);
    }
    if (kill_at && Clock::now() >= *kill_at) signal_all(ranks, SIGKILL);
  }
  const Clock::time_point enough = Clock::now() + kLastWords;
  while (!all_silent(ranks) && Clock::now() < enough) relay(ranks);
  for (Rank& rank : ranks) {
    kill(-rank.process, SIGKILL);  // what a rank left behind
    for (LinePipe& pipe : rank.pipes) pipe.finish();
  }
  return result;
}

}  // namespace

int launch(const LaunchPlan& plan) {
  LaunchPlan complete = plan;
  if (complete.secret.empty()) complete.secret = random_secret();
  if (complete.master_port == 0) complete.master_port = free_port();
  std::vector<Rank> ranks;
  try {
    for (int local = 0; local < complete.local_ranks; ++local) {
      ranks.push_back(start(complete, local));
    }
  } catch (const Error&) {
    signal_all(ranks, SIGKILL);
    for (const Rank& rank : ranks) waitpid(rank.process, nullptr, 0);
    throw;
  }
  return supervise(ranks, complete);
}

}  // namespace rungs::cli
