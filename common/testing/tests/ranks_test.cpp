#include <rungs/core/env.hpp>
#include <rungs/core/error.hpp>
#include <rungs/testing/ranks.hpp>

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <new>
#include <string>
#include <thread>

namespace rungs::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Memory that forked ranks and the test share.
template <class T>
class Shared {
 public:
  Shared() {
    void* memory =
        ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) RUNGS_THROW(kSystem, "mmap failed");
    value_ = new (memory) T();
  }
  ~Shared() { ::munmap(value_, sizeof(T)); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  T& operator*() const { return *value_; }

 private:
  T* value_;
};

TEST(RankThreads, AllRunAtOnce) {
  std::atomic<int> arrived{0};
  const auto outcomes = run_threads(4, [&](int rank) {
    arrived.fetch_add(1 << (8 * rank));
    while (arrived.load() != 0x01010101) std::this_thread::yield();  // ends only if all four run
  });
  EXPECT_EQ(failures(outcomes), "");
  EXPECT_EQ(outcomes.size(), 4u);
}

TEST(RankThreads, FailuresAreCollected) {
  const auto outcomes = run_threads(3, [](int rank) {
    if (rank == 1) RUNGS_THROW(kPeerLost, "lost rank 2");
    if (rank == 2) throw 5;
  });
  EXPECT_TRUE(outcomes[0].ok);
  EXPECT_NE(outcomes[1].text.find("lost rank 2"), std::string::npos);
  EXPECT_NE(failures(outcomes).find("rank 2: threw something that is no std::exception"),
            std::string::npos);
  EXPECT_THROW(run_threads(0, [](int) {}), Error);
}

TEST(RankThreadsDeathTest, HangIsNamed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(run_threads(
                   2,
                   [](int rank) {
                     while (rank == 1) std::this_thread::sleep_for(seconds(1));
                   },
                   milliseconds(50)),
               "run_threads: rank 1 still running");
}

TEST(RankProcesses, HaveTheirRankAndShareMemory) {
  Shared<std::atomic<int>> sum;
  const auto outcomes = run_processes(4, [&](int rank) {
    const RankEnvironment ranks = RankEnvironment::read();
    RUNGS_REQUIRE(ranks.rank == rank && ranks.world_size == 4, "rank ", ranks.rank, " of ",
                  ranks.world_size);
    (*sum).fetch_add(rank + 1);
  });
  EXPECT_EQ(failures(outcomes), "");
  EXPECT_EQ((*sum).load(), 10);
}

TEST(RankProcesses, EveryWayToFailIsTold) {
  const auto outcomes = run_processes(5, [](int rank) {
    if (rank == 1) RUNGS_THROW(kTimeout, "rank 1 waited");
    if (rank == 2) ::_exit(3);
    if (rank == 3) ::raise(SIGKILL);
    if (rank == 4) throw std::runtime_error(std::string(200000, 'x'));  // more than a pipe holds
  });
  EXPECT_TRUE(outcomes[0].ok);
  EXPECT_EQ(outcomes[1].text.find("Timeout: rank 1 waited ["), 0u) << outcomes[1].text;
  EXPECT_EQ(outcomes[2].text, "exit status 3");
  EXPECT_EQ(outcomes[3].text, "killed by signal 9 (Killed)");
  EXPECT_EQ(outcomes[4].text.size(), 200000u);
}

// A rank that hangs is killed, and so is the process it started.
TEST(RankProcesses, NothingIsLeftBehind) {
  Shared<std::atomic<int>> grandchild;
  Shared<std::atomic<int>> child;
  const auto outcomes = run_processes(
      2,
      [&](int rank) {
        if (rank == 0) return;
        *child = ::getpid();
        const pid_t pid = ::fork();
        if (pid > 0) *grandchild = pid;
        while (true) ::pause();
      },
      milliseconds(300));
  EXPECT_TRUE(outcomes[0].ok);
  EXPECT_EQ(outcomes[1].text.find("still running after "), 0u) << outcomes[1].text;
  ASSERT_GT((*grandchild).load(), 0);
  EXPECT_EQ(::kill(*child, 0), -1);
  // The orphan is reaped by init, which may take a moment; a zombie can do no harm but still has
  // its number.
  bool gone = false;
  for (int i = 0; i < 500 && !gone; ++i) {
    gone = ::kill(*grandchild, 0) == -1 && errno == ESRCH;
    if (gone) break;
    const std::string stat = "/proc/" + std::to_string((*grandchild).load()) + "/stat";
    FILE* file = std::fopen(stat.c_str(), "r");
    char state = 0;
    if (file == nullptr || std::fscanf(file, "%*d %*s %c", &state) != 1 || state == 'Z')
      gone = true;
    if (file != nullptr) std::fclose(file);
    if (!gone) std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_TRUE(gone) << "process " << (*grandchild).load() << " still runs";
}

}  // namespace
}  // namespace rungs::testing
