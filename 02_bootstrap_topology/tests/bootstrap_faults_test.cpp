// Ranks that die, give up, stay away or call something else: everybody hears of it.

#include "bootstrap_support.hpp"

#include <unistd.h>

#include <csignal>

namespace rungs::bootstrap::test {
namespace {

class BootstrapFaults : public BootstrapTest {};

[[noreturn]] void die() {
  ::kill(::getpid(), SIGKILL);
  while (true) ::pause();
}

struct Death {
  const char* name;
  AllGather form;
  std::function<void(Group&)> call;  // of the ranks that live
};

class BootstrapDeath : public BootstrapTest, public ::testing::WithParamInterface<Death> {};

// Rank 3 of 6 is killed while the others are in a call that it never makes. Not only its neighbours
// learn it, and what they learn is its number.
TEST_P(BootstrapDeath, IsHeardByAll) {
  GroupOptions options;
  options.all_gather = GetParam().form;
  const auto outcomes = run_group_processes(6, options, [](Group& group) {
    const std::string error = error_of([&] {
      (void)group.all_gather(group.rank());
      group.barrier();
      if (group.rank() == 3) {
        std::this_thread::sleep_for(100ms);  // the others are waiting by then
        die();
      }
      GetParam().call(group);
    });
    require_has(error, {"PeerLost", "rank 3 died", "without a goodbye"});
    const std::optional<Lost> lost = group.lost();
    require(lost.has_value() && lost->rank == 3, "lost() names rank 3");
    // It stays so.
    require_has(error_of([&] { group.check(); }), {"PeerLost", "rank 3 died"});
    require_has(error_of([&] { group.barrier(); }), {"PeerLost", "rank 3 died"});
  });
  EXPECT_EQ(failures(outcomes), "rank 3: killed by signal 9 (Killed)\n");
}

void until_lost(Group& group) {
  wait_until([&] { return group.lost().has_value(); }, Deadline::after(20s),
             [] { return "news of the loss"; });
  group.check();
}

INSTANTIATE_TEST_SUITE_P(
    , BootstrapDeath,
    ::testing::Values(
        Death{"ring", AllGather::kRing, [](Group& group) { (void)group.all_gather(1); }},
        Death{"star", AllGather::kStar, [](Group& group) { (void)group.all_gather(1); }},
        Death{"both_ways", AllGather::kBothWays, [](Group& group) { (void)group.all_gather(1); }},
        Death{"barrier", AllGather::kRing, [](Group& group) { group.barrier(); }},
        Death{"receive", AllGather::kRing, [](Group& group) { (void)group.receive(3, 1); }},
        Death{"receive_fd", AllGather::kRing, [](Group& group) { (void)group.receive_fd(3, 1); }},
        Death{"receive_from_another", AllGather::kRing,
              [](Group& group) { (void)group.receive((group.rank() + 1) % 6, 1); }},
        Death{"nothing_but_polling", AllGather::kRing, until_lost}),
    [](const auto& tested) { return std::string(tested.param.name); });

// The same while nobody else leaves and only the neighbours have a connection to rank 3: it is the
// news that travels.
TEST_F(BootstrapFaults, NewsTravelsAllRound) {
  SharedId shared;
  const auto count_to = [&](int count) {
    ++shared.counter();
    wait_until([&] { return shared.counter() >= count; }, Deadline::after(20s),
               [&] { return concat(count, " marks of ranks"); });
  };
  const auto outcomes = run_processes(7, [&](int rank) {
    std::optional<Root> root;
    if (rank == 0) {
      root.emplace(RootOptions{.ranks = 7, .interface_or_address = "127.0.0.1"});
      shared.publish(root->id());
    }
    Group group(shared.wait(), rank, 7);
    count_to(7);  // all have joined
    if (rank == 3) die();
    require_has(error_of([&] { until_lost(group); }), {"PeerLost", "rank 3 died"});
    count_to(13);  // all have heard
  });
  EXPECT_EQ(failures(outcomes), "rank 3: killed by signal 9 (Killed)\n");
}

// Killed in the middle of a large exchange, with frames half on their way.
TEST_F(BootstrapFaults, DeathInMidTransfer) {
  const auto outcomes = run_group_processes(4, {}, [](Group& group) {
    if (group.rank() == 2) {
      std::thread([] {
        std::this_thread::sleep_for(150ms);
        die();
      }).detach();
    }
    const std::vector<std::byte> mine = bytes_of(3'000'000, 1);
    std::vector<std::byte> all(4 * mine.size());
    require_has(error_of([&] {
                  while (true) group.all_gather(mine, all);
                }),
                {"PeerLost", "rank 2 died"});
  });
  EXPECT_EQ(failures(outcomes), "rank 2: killed by signal 9 (Killed)\n");
}

// Two neighbours at once: what remains of the ring is a line.
TEST_F(BootstrapFaults, TwoDeaths) {
  const auto outcomes = run_group_processes(7, {}, [](Group& group) {
    const std::string error = error_of([&] {
      group.barrier();
      if (group.rank() != 2 && group.rank() != 5) group.barrier();
    });
    // The one may hear of the other's death first; it dies all the same.
    if (group.rank() == 2 || group.rank() == 5) die();
    require_has(error, {"PeerLost", "died"});
    const int lost = group.lost()->rank;
    require(lost == 2 || lost == 5, "one of the dead is named");
  });
  EXPECT_EQ(failures(outcomes),
            "rank 2: killed by signal 9 (Killed)\nrank 5: killed by signal 9 (Killed)\n");
}

// After clean goodbyes on both sides of it, a rank is still heard when it dies.
TEST_F(BootstrapFaults, DeathBehindGaps) {
  const auto outcomes = run_group_processes(6, {}, [](Group& group) {
    group.barrier();
    if (group.rank() != 1 && group.rank() != 4) return;
    std::this_thread::sleep_for(300ms);
    if (group.rank() == 4) die();
    require_has(error_of([&] { until_lost(group); }), {"PeerLost", "rank 4 died"});
  });
  EXPECT_EQ(failures(outcomes), "rank 4: killed by signal 9 (Killed)\n");
}

TEST_F(BootstrapFaults, AbortFromAnotherThread) {
  const auto outcomes = run_group(5, {}, [](Group& group) {
    std::thread other;
    const std::string error = error_of([&] {
      group.barrier();
      if (group.rank() == 2) {
        other = std::thread([&] {
          std::this_thread::sleep_for(50ms);
          group.abort("the disk is full");
        });
      }
      if (group.rank() % 2 == 0) (void)group.receive(1, 77);
      group.barrier();
    });
    if (other.joinable()) other.join();
    require_has(error, {"PeerLost", "rank 2 gave up: the disk is full"});
    require(group.lost()->rank == 2, "lost() names rank 2");
    group.abort("too late");
    require(has(group.lost()->reason, "the disk is full"), "the first reason stays");
  });
  EXPECT_EQ(failures(outcomes), "");
}

TEST_F(BootstrapFaults, DifferentSizes) {
  for (const AllGather form : {AllGather::kStar, AllGather::kRing, AllGather::kBothWays}) {
    GroupOptions options;
    options.all_gather = form;
    const auto outcomes = run_group(5, options, [](Group& group) {
      const std::size_t size = group.rank() == 2 ? 8 : 4;
      std::vector<std::byte> mine(size);
      std::vector<std::byte> all(5 * size);
      const std::string error = error_of([&] {
        group.barrier();
        group.all_gather(mine, all);
        group.barrier();
      });
      require_has(error, {"InvalidArgument", "the ranks make different calls", "rank 2",
                          "8 bytes a rank", "4 bytes a rank"});
    });
    EXPECT_EQ(failures(outcomes), "");
  }
}

TEST_F(BootstrapFaults, ResultOfAWrongSize) {
  const auto outcomes = run_group(1, {}, [](Group& group) {
    std::vector<std::byte> mine(4);
    std::vector<std::byte> all(5);
    require_has(error_of([&] { group.all_gather(mine, all); }),
                {"InvalidArgument", "the result has 5 bytes", "need 4"});
  });
  EXPECT_EQ(failures(outcomes), "");
}

TEST_F(BootstrapFaults, DifferentCalls) {
  const auto outcomes = run_group(4, {}, [](Group& group) {
    const std::string error = error_of([&] {
      group.barrier();
      if (group.rank() == 1) {
        group.barrier();
      } else {
        (void)group.all_gather(group.rank());
      }
      group.barrier();
    });
    require_has(error, {"InvalidArgument", "the ranks make different calls", "barrier 3",
                        "all_gather (ring) 3"});
  });
  EXPECT_EQ(failures(outcomes), "");
}

// The forms of all_gather are options of each rank, and must be the same.
TEST_F(BootstrapFaults, DifferentForms) {
  Root root({.ranks = 3, .interface_or_address = "127.0.0.1"});
  const auto outcomes = run_threads(3, [&](int rank) {
    GroupOptions options;
    options.all_gather = rank == 1 ? AllGather::kStar : AllGather::kRing;
    Group group(root.id(), rank, 3, options);
    const std::string error = error_of([&] {
      group.barrier();
      (void)group.all_gather(1);
    });
    require_has(error, {"InvalidArgument", "all_gather (star) 3", "all_gather (ring) 3"});
  });
  EXPECT_EQ(failures(outcomes), "");
}

struct Absence {
  const char* name;
  std::function<void(Group&, const Deadline&)> call;
};
class BootstrapAbsence : public BootstrapTest, public ::testing::WithParamInterface<Absence> {};

// Rank 2 does not come. Most ranks wait for somebody else who waits for it; all name rank 2.
TEST_P(BootstrapAbsence, IsNamedByAll) {
  const auto outcomes = run_group(5, {}, [](Group& group) {
    group.barrier();  // the others wait long enough for everybody to come out of this one
    if (group.rank() == 2) {
      wait_until([&] { return group.lost().has_value(); }, Deadline::after(20s),
                 [] { return "the others' giving up"; });
      return;
    }
    const std::string error = error_of([&] { GetParam().call(group, Deadline::after(200ms)); });
    require_has(error, {"Timeout", "waited ", "not in this call yet: rank 2"});
  });
  EXPECT_EQ(failures(outcomes), "");
}

INSTANTIATE_TEST_SUITE_P(, BootstrapAbsence,
                         ::testing::Values(Absence{"all_gather",
                                                   [](Group& group, const Deadline& deadline) {
                                                     (void)group.all_gather(1, deadline);
                                                   }},
                                           Absence{"barrier",
                                                   [](Group& group, const Deadline& deadline) {
                                                     group.barrier(deadline);
                                                   }}),
                         [](const auto& tested) { return std::string(tested.param.name); });

// The group's own patience, when a call names none.
TEST_F(BootstrapFaults, TheGroupsTimeout) {
  GroupOptions options;
  options.timeout_seconds = 0.5;
  const auto outcomes = run_group(2, options, [](Group& group) {
    if (group.rank() == 0)
      require_has(error_of([&] { group.barrier(); }), {"Timeout", "not in this call yet: rank 1"});
    else
      require_has(error_of([&] { until_lost(group); }), {"PeerLost", "rank 0 waited"});
  });
  EXPECT_EQ(failures(outcomes), "");
}

// A message that does not come breaks nothing: it may come later.
TEST_F(BootstrapFaults, ALateMessageIsNoLoss) {
  const auto outcomes = run_group(2, {}, [](Group& group) {
    if (group.rank() == 0) {
      group.send(1, 4, bytes_of(10, 1));
      const std::string error = error_of([&] { (void)group.receive(1, 5, Deadline::after(50ms)); });
      require_has(error, {"Timeout", "message with tag 5 from rank 1", "waited "});
      group.send(1, 5, {});
      require(group.receive(1, 5).size() == 3, "the message, later");
    } else {
      (void)group.receive(0, 5);
      require_has(error_of([&] { (void)group.receive(0, 6, Deadline::after(10ms)); }),
                  {"Timeout", "1 messages with other tags"});
      group.send(0, 5, bytes_of(3, 1));
      (void)group.receive(0, 4);
    }
    group.barrier();
  });
  EXPECT_EQ(failures(outcomes), "");
}

TEST_F(BootstrapFaults, WhoLeavesIsMissedByThoseWhoWait) {
  const auto outcomes = run_group(5, {}, [](Group& group) {
    const std::string error = error_of([&] {
      group.barrier();
      if (group.rank() == 3) return;
      if (group.rank() == 0) (void)group.receive(3, 1);
      group.barrier();
    });
    if (group.rank() == 3) return;
    // Ranks that gave up leave as well, so any of them may be named, but nobody died.
    require_has(error, {"PeerLost", "left the group after 2 collective calls"});
    require(!group.lost(), "leaving is no loss");
  });
  EXPECT_EQ(failures(outcomes), "");
}

TEST_F(BootstrapFaults, SendingToWhoLeft) {
  const auto outcomes = run_group(3, {}, [](Group& group) {
    group.barrier();
    if (group.rank() == 1) return;
    if (group.rank() == 0) {
      const std::string error = error_of([&] {
        while (true) group.send(1, 0, bytes_of(1000, 1));
      });
      require_has(error, {"PeerLost", "rank 1 left the group"});
      group.send(2, 0, {});
    } else {
      (void)group.receive(0, 0);
    }
  });
  EXPECT_EQ(failures(outcomes), "");
}

// A stopped process keeps its connections: only the deadline ends the wait.
TEST_F(BootstrapFaults, AStoppedRank) {
  const auto outcomes = run_group_processes(4, {}, [](Group& group) {
    const std::vector<pid_t> processes = group.all_gather(::getpid());
    if (group.rank() == 2) {
      ::kill(::getpid(), SIGSTOP);
      require_has(error_of([&] { until_lost(group); }), {"waited "});
      return;
    }
    const std::string error = error_of([&] { group.barrier(Deadline::after(300ms)); });
    require_has(error, {"Timeout", "waited ", "did not come round the ring"});
    std::this_thread::sleep_for(100ms);  // all have seen it by then
    ::kill(processes[2], SIGCONT);
  });
  EXPECT_EQ(failures(outcomes), "");
}

TEST_F(BootstrapFaults, BadRanksAndDescriptors) {
  const auto outcomes = run_group(2, {}, [](Group& group) {
    require_has(error_of([&] { group.send(2, 0, {}); }), {"InvalidArgument", "no rank 2 among 2"});
    require_has(error_of([&] { (void)group.receive(-1, 0); }), {"InvalidArgument", "no rank -1"});
    require_has(error_of([&] { group.send_fd(1, 0, -5); }), {"InvalidArgument", "-5 is no open"});
    require_has(error_of([&] { (void)group.same_host(9); }), {"InvalidArgument", "no rank 9"});
    group.barrier();
  });
  EXPECT_EQ(failures(outcomes), "");
}

}  // namespace
}  // namespace rungs::bootstrap::test
