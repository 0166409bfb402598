// Groups of some of a group's ranks: who is in them, how they end, what they hear.

#include "bootstrap_support.hpp"

#include <unistd.h>

#include <csignal>
#include <utility>

namespace rungs::bootstrap::test {
namespace {

class BootstrapSubgroup : public BootstrapTest {};

using Members = std::vector<int>;

// Every member's number in the group above, gathered in the subgroup.
void check_subgroup(Group& group, const Members& members) {
  Group part = group.subgroup(members);
  require(part.size() == static_cast<int>(members.size()), "the size of the list");
  require(members[static_cast<std::size_t>(part.rank())] == group.rank(), "the place in the list");
  require(part.all_gather(group.rank()) == members,
          concat("members in order, at rank ", group.rank()));
  const int next = (part.rank() + 1) % part.size();
  const int previous = (part.rank() + part.size() - 1) % part.size();
  part.send(next, 5, bytes_of(100, static_cast<unsigned>(part.rank())));
  require(part.receive(previous, 5) == bytes_of(100, static_cast<unsigned>(previous)),
          "the message of the rank before");
  part.barrier();
}

bool contains(const Members& members, int rank) {
  return std::find(members.begin(), members.end(), rank) != members.end();
}

TEST_F(BootstrapSubgroup, HasTheMembersInTheirOrder) {
  const auto outcomes = run_group(5, {}, [](Group& group) {
    // One after the other, overlapping; those left out go on to the next one.
    for (const Members& members : {Members{0, 1, 2, 3, 4}, Members{3, 1}, Members{1, 3, 4},
                                   Members{4, 0}, Members{2}, Members{4, 0}}) {
      if (contains(members, group.rank())) check_subgroup(group, members);
    }
    group.barrier();
  });
  EXPECT_EQ(failures(outcomes), "");
}

TEST_F(BootstrapSubgroup, RanksMayBeProcesses) {
  const auto outcomes = run_group_processes(4, {}, [](Group& group) {
    const int half = group.rank() / 2;
    check_subgroup(group, {2 * half, 2 * half + 1});
    check_subgroup(group, {3, 2, 1, 0});
    require(!group.same_process((group.rank() + 1) % 4), "processes");
  });
  EXPECT_EQ(failures(outcomes), "");
}

// Two halves live side by side with the whole, and one of a half.
TEST_F(BootstrapSubgroup, AllCanBeUsedInTurns) {
  const auto outcomes = run_group(4, {}, [](Group& group) {
    const int half = group.rank() / 2;
    Group part = group.subgroup({2 * half, 2 * half + 1});
    Group alone = part.subgroup({part.rank()});
    for (int round = 0; round < 10; ++round) {
      require(
          part.all_gather(group.rank() + round) == Members{2 * half + round, 2 * half + 1 + round},
          "the half's values");
      if (round % 2 == half) part.barrier();  // one half makes more calls than the other
      require(group.all_gather(half) == Members{0, 0, 1, 1}, "everybody's values");
      require(alone.all_gather(7) == Members{7}, "its own value");
    }
  });
  EXPECT_EQ(failures(outcomes), "");
}

// Hosts are pretended: also the subgroup knows them.
TEST_F(BootstrapSubgroup, KnowsHosts) {
  Root root({.ranks = 5, .interface_or_address = "127.0.0.1"});
  const auto outcomes = run_threads(5, [&](int rank) {
    GroupOptions options;
    options.host_id = rank == 0 || rank == 3 ? "zebra" : rank == 4 ? "ant" : "bee";
    Group group(root.id(), rank, 5, options);
    require(group.hosts() == std::vector<Members>{{0, 3}, {1, 2}, {4}}, "ranks by host");
    if (rank == 0) return;
    const Group part = group.subgroup({4, 3, 2, 1});
    require(part.hosts() == std::vector<Members>{{0}, {1}, {2, 3}}, "the subgroup's by host");
    require(part.same_host(2) == (rank == 1 || rank == 2), "same_host of the subgroup");
  });
  EXPECT_EQ(failures(outcomes), "");
}

TEST_F(BootstrapSubgroup, WrongListsAreRefused) {
  const auto outcomes = run_group(3, {}, [](Group& group) {
    const auto says = [&](const Members& members, std::string_view text) {
      require_has(error_of([&] { (void)group.subgroup(members); }), {"InvalidArgument", text});
    };
    says({}, "no members");
    says({0, 1, 2, 3}, "there is no rank 3 among 3");
    says({-1, 0, 1, 2}, "there is no rank -1");
    says({0, 1, 1, 2}, "rank 1 is named twice");
    if (group.rank() == 1) says({0, 2}, "{0, 2}: rank 1 called it and is not a member");
    group.barrier();
    // All of that was found on this rank alone: the group goes on.
    check_subgroup(group, {2, 0, 1});
    says(group.rank() == 2 ? Members{2, 1, 0} : Members{0, 1, 2},
         "rank 0 says {0, 1, 2}, rank 2 says {2, 1, 0}");
    group.barrier();
  });
  EXPECT_EQ(failures(outcomes), "");
}

TEST_F(BootstrapSubgroup, WhoDoesNotCallIsNamed) {
  GroupOptions options;
  options.timeout_seconds = 0.5;
  std::mutex mutex;
  std::string texts;
  const auto outcomes = run_group(3, options, [&](Group& group) {
    if (group.rank() != 1) {
      const std::string text = error_of([&] { (void)group.subgroup({0, 1, 2}); });
      require_has(text, {"Timeout", "subgroup {0, 1, 2}", "Has every member called it"});
      const std::lock_guard lock(mutex);
      texts += text;
    }
    group.barrier(Deadline::after(20s));
  });
  EXPECT_EQ(failures(outcomes), "");
  EXPECT_TRUE(has(texts, "from rank 1: waited")) << texts;
}

[[noreturn]] void die() {
  ::kill(::getpid(), SIGKILL);
  while (true) ::pause();
}

// A member that dies instead of calling, with the default time-out of a minute.
TEST_F(BootstrapSubgroup, ADeadMemberIsNoticed) {
  const auto began = std::chrono::steady_clock::now();
  const auto outcomes = run_group_processes(4, {}, [](Group& group) {
    group.barrier();
    if (group.rank() == 3) {
      std::this_thread::sleep_for(100ms);
      die();
    }
    require_has(error_of([&] { (void)group.subgroup({1, 0, 3, 2}); }), {"PeerLost", "rank 3 died"});
  });
  EXPECT_EQ(failures(outcomes), "rank 3: killed by signal 9 (Killed)\n");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  EXPECT_LT(took.count(), 20 * timeout_scale());
}

// Who is in no subgroup together with it still hears of a death, and of a subgroup's abort().
TEST_F(BootstrapSubgroup, NewsIsHeardInBoth) {
  const auto outcomes = run_group_processes(4, {}, [](Group& group) {
    const int half = group.rank() / 2;
    Group part = group.subgroup({2 * half, 2 * half + 1});
    group.barrier();
    if (group.rank() == 3) {
      std::this_thread::sleep_for(100ms);
      die();
    }
    require_has(error_of([&] {
                  wait_until([&] { return part.lost().has_value(); }, Deadline::after(20s),
                             [] { return "news of the loss"; });
                  part.check();
                }),
                {"PeerLost", " died"});
    require(part.lost()->rank == (group.rank() == 2 ? 1 : -1), "the rank in the subgroup");
    // Rank 2 may hear it in its subgroup first; for the others there is no other way.
    if (group.rank() == 2) return;
    require_has(part.lost()->reason, {"in the group above this subgroup: rank 3 died"});
    require(group.lost() && group.lost()->rank == 3, "the rank in the whole group");
  });
  EXPECT_EQ(failures(outcomes), "rank 3: killed by signal 9 (Killed)\n");

  const auto aborted = run_group(4, {}, [](Group& group) {
    const int half = group.rank() / 2;
    Group part = group.subgroup({2 * half + 1, 2 * half});
    // Not a barrier: somebody may still be in it when another has left.
    if (group.rank() != 0) group.send(0, 1, {});
    for (int other = 1; group.rank() == 0 && other < 4; ++other) (void)group.receive(other, 1);
    if (group.rank() == 0) part.abort("enough");
    wait_until([&] { return part.lost() && group.lost(); }, Deadline::after(20s),
               [] { return "news of the abort"; });
    require(group.lost()->rank == 0, "the group says who");
    require_has(group.lost()->reason, {"rank 0 gave up: enough"});
    const int there = part.lost()->rank;
    require(half == 0 ? there == 1 : there == -1, "the subgroup says who");
    // Nobody says goodbye before all have heard.
    std::this_thread::sleep_for(50ms);
  });
  EXPECT_EQ(failures(aborted), "");
}

}  // namespace
}  // namespace rungs::bootstrap::test
