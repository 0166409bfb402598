// How long N processes take from their start until all have joined and met in a barrier:
//
//     bootstrap_start [processes, default 8] [rounds, default 20]

#include <rungs/bootstrap/group.hpp>
#include <rungs/core/error.hpp>
#include <rungs/core/table.hpp>
#include <rungs/core/text.hpp>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace rungs;
using Clock = std::chrono::steady_clock;

struct Shared {
  std::atomic<bool> there{false};
  bootstrap::UniqueId id;
  std::atomic<Clock::rep> joined{0};  // the last rank's times
  std::atomic<Clock::rep> met{0};
};

void keep_latest(std::atomic<Clock::rep>& latest) {
  const Clock::rep now = Clock::now().time_since_epoch().count();
  Clock::rep seen = latest.load();
  while (seen < now && !latest.compare_exchange_weak(seen, now)) continue;
}

void be_rank(int rank, int ranks, Shared& shared) {
  std::optional<bootstrap::Root> root;
  if (rank == 0) {
    root.emplace(bootstrap::RootOptions{.ranks = ranks, .interface_or_address = "127.0.0.1"});
    shared.id = root->id();
    shared.there = true;
  }
  wait_until([&] { return shared.there.load(); }, Deadline::standard(),
             [] { return std::string("the root"); });
  bootstrap::Group group(shared.id, rank, ranks);
  keep_latest(shared.joined);
  group.barrier();
  keep_latest(shared.met);
}

struct Times {
  double joined;
  double met;
};

Times one_round(int ranks) {
  void* memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  auto* shared = new (memory) Shared;
  const Clock::rep start = Clock::now().time_since_epoch().count();
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        be_rank(rank, ranks, *shared);
        ::_exit(0);
      } catch (const std::exception& error) {
        std::cerr << error.what() << '\n';
        ::_exit(1);
      }
    }
    if (child < 0) RUNGS_THROW(kSystem, "fork of rank ", rank, ": errno ", errno);
    children.push_back(child);
  }
  bool ok = true;
  for (const pid_t child : children) {
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    ok = ok && status == 0;
  }
  const auto seconds = [&](const std::atomic<Clock::rep>& when) {
    return std::chrono::duration<double>(Clock::duration(when.load() - start)).count();
  };
  const Times times{seconds(shared->joined), seconds(shared->met)};
  ::munmap(memory, sizeof(Shared));
  if (!ok) RUNGS_THROW(kPeerLost, "a rank failed");
  return times;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const int ranks = argc > 1 ? std::atoi(argv[1]) : 8;
    const int rounds = argc > 2 ? std::atoi(argv[2]) : 20;
    RUNGS_REQUIRE(ranks >= 1 && rounds >= 1, "usage: bootstrap_start [processes] [rounds]");
    std::vector<double> joined;
    std::vector<double> met;
    for (int round = 0; round < rounds; ++round) {
      const Times times = one_round(ranks);
      joined.push_back(times.joined);
      met.push_back(times.met);
    }
    std::sort(joined.begin(), joined.end());
    std::sort(met.begin(), met.end());
    Table table({"from the first fork until", "median", "slowest"});
    table.add_row({"the last rank has joined", format_seconds(joined[joined.size() / 2]),
                   format_seconds(joined.back())});
    table.add_row({"the last rank is through a barrier", format_seconds(met[met.size() / 2]),
                   format_seconds(met.back())});
    std::cout << ranks << " processes, " << rounds << " rounds, "
              << std::thread::hardware_concurrency() << " cores\n"
              << table.to_string();
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
