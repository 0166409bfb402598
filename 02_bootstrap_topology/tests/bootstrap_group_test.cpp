// What a group does when nothing goes wrong.

#include "bootstrap_support.hpp"

#include <rungs/core/env.hpp>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

namespace rungs::bootstrap::test {
namespace {

class BootstrapGroup : public BootstrapTest {};

// Block of a rank in a call: nobody else's, and another one every call.
std::vector<std::byte> block(int rank, int call, std::size_t size_bytes) {
  return bytes_of(size_bytes, static_cast<unsigned>(rank * 1000 + call + 1));
}

void gather_and_check(Group& group, int call, std::size_t size_bytes) {
  const std::vector<std::byte> mine = block(group.rank(), call, size_bytes);
  std::vector<std::byte> all(size_bytes * static_cast<std::size_t>(group.size()), std::byte{0xee});
  group.all_gather(mine, all);
  for (int rank = 0; rank < group.size(); ++rank) {
    const std::vector<std::byte> expected = block(rank, call, size_bytes);
    const auto from = all.begin() + static_cast<std::ptrdiff_t>(size_bytes) * rank;
    require(std::equal(expected.begin(), expected.end(), from),
            "block of rank " + std::to_string(rank) + " in call " + std::to_string(call));
  }
}

struct Shape {
  int ranks;
  AllGather form;
};
class BootstrapAllGather : public BootstrapTest, public ::testing::WithParamInterface<Shape> {};

TEST_P(BootstrapAllGather, EveryRankHasEveryBlock) {
  const GroupOptions options{.all_gather = GetParam().form};
  const auto outcomes = run_group(GetParam().ranks, options, [](Group& group) {
    int call = 0;
    for (const std::size_t size : {0, 1, 7, 64, 4097, 100'003})
      gather_and_check(group, ++call, size);
    const std::vector<int> squares = group.all_gather(group.rank() * group.rank());
    for (int rank = 0; rank < group.size(); ++rank)
      require(squares[static_cast<std::size_t>(rank)] == rank * rank, "squares");
    group.barrier();
  });
  EXPECT_EQ(failures(outcomes), "");
}

std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (const AllGather form : {AllGather::kStar, AllGather::kRing, AllGather::kBothWays}) {
    for (const int ranks : {1, 2, 3, 4, 5, 8}) all.push_back({ranks, form});
  }
  return all;
}

std::string name_of(const ::testing::TestParamInfo<Shape>& tested) {
  constexpr std::array<const char*, 3> kNames{"star", "ring", "both_ways"};
  return concat(kNames.at(std::size_t(tested.param.form)), '_', tested.param.ranks);
}

INSTANTIATE_TEST_SUITE_P(, BootstrapAllGather, ::testing::ValuesIn(shapes()), name_of);

// A barrier that let anybody through early would show a smaller count.
TEST_F(BootstrapGroup, BarrierHoldsEverybody) {
  for (const int ranks : {2, 3, 5, 8}) {
    std::atomic<int> arrived{0};
    const auto outcomes = run_group(ranks, {}, [&](Group& group) {
      for (int round = 1; round <= 20; ++round) {
        if (round % group.size() == group.rank()) std::this_thread::sleep_for(1ms);
        ++arrived;
        group.barrier();
        require(arrived >= round * ranks, "all ranks in round " + std::to_string(round));
        group.barrier();
      }
    });
    EXPECT_EQ(failures(outcomes), "");
  }
}

TEST_F(BootstrapGroup, SixtyFourRanksAsThreads) {
  const auto outcomes = run_group(64, {}, [](Group& group) {
    gather_and_check(group, 1, 32);
    group.barrier();
    require(group.local_ranks().size() == 64, "64 local ranks");
  });
  EXPECT_EQ(failures(outcomes), "");
}

TEST_F(BootstrapGroup, OverIpv6) {
  if (!std::filesystem::exists("/proc/net/if_inet6")) GTEST_SKIP() << "this kernel has no IPv6";
  const auto outcomes = run_group(
      3, {}, [](Group& group) { gather_and_check(group, 1, 100); }, "::1");
  EXPECT_EQ(failures(outcomes), "");
}

TEST_F(BootstrapGroup, OverAllInterfaces) {
  const auto outcomes = run_group(
      3, {}, [](Group& group) { gather_and_check(group, 1, 100); }, "0.0.0.0");
  EXPECT_EQ(failures(outcomes), "");
}

TEST_F(BootstrapGroup, MessagesAreMatchedBySenderAndTag) {
  const auto outcomes = run_group(4, {}, [](Group& group) {
    // 1. Everybody sends everybody (itself too) two messages of each of three tags.
    for (int to = 0; to < group.size(); ++to) {
      for (std::uint64_t tag : {std::uint64_t{0}, std::uint64_t{7}, ~std::uint64_t{0}}) {
        group.send(to, tag, block(group.rank(), static_cast<int>(tag % 100), 10'000));
        group.send(to, tag, block(group.rank(), static_cast<int>(tag % 100) + 1, 0));
      }
    }
    // 2. They are received in another order; of one tag the first comes first.
    for (int from = group.size() - 1; from >= 0; --from) {
      for (std::uint64_t tag : {~std::uint64_t{0}, std::uint64_t{0}, std::uint64_t{7}}) {
        require(group.receive(from, tag) == block(from, static_cast<int>(tag % 100), 10'000),
                "first message");
        require(group.receive(from, tag).empty(), "second message");
      }
    }
    group.barrier();
  });
  EXPECT_EQ(failures(outcomes), "");
}

// Both send more than socket buffers hold before either receives: messages wait at the receiver.
TEST_F(BootstrapGroup, LargeMessagesCrossWithoutDeadlock) {
  const std::size_t size = std::size_t{24} << 20;
  const auto outcomes = run_group(2, {}, [&](Group& group) {
    const int other = 1 - group.rank();
    group.send(other, 1, block(group.rank(), 1, size));
    require(group.receive(other, 1) == block(other, 1, size), "24 MiB");
  });
  EXPECT_EQ(failures(outcomes), "");
}

TEST_F(BootstrapGroup, DescriptorsTravel) {
  const auto outcomes = run_group_processes(3, {}, [](Group& group) {
    const int to = (group.rank() + 1) % 3;
    const int from = (group.rank() + 2) % 3;
    for (const int target : {to, group.rank()}) {
      std::array<int, 2> ends{};
      require(::pipe2(ends.data(), O_CLOEXEC) == 0, "a pipe");
      group.send_fd(target, 5, ends[0]);
      ::close(ends[0]);
      const char letter = static_cast<char>('a' + group.rank());
      require(::write(ends[1], &letter, 1) == 1, "a byte written");
      ::close(ends[1]);
      const int source = target == to ? from : group.rank();
      const int received = group.receive_fd(source, 5);
      char seen = 0;
      require(::read(received, &seen, 1) == 1 && seen == 'a' + source, "the sender's letter");
      require((::fcntl(received, F_GETFD) & FD_CLOEXEC) != 0, "close-on-exec");
      ::close(received);
    }
    group.barrier();
  });
  EXPECT_EQ(failures(outcomes), "");
}

TEST_F(BootstrapGroup, ManyDescriptorsKeepTheirOrder) {
  const auto outcomes = run_group(2, {}, [](Group& group) {
    std::vector<ino_t> sent;
    for (int i = 0; i < 40; ++i) {
      const int fd = ::memfd_create("rungs-test", MFD_CLOEXEC);
      struct stat status {};
      require(fd >= 0 && ::fstat(fd, &status) == 0, "a memfd");
      sent.push_back(status.st_ino);
      group.send_fd(1 - group.rank(), static_cast<std::uint64_t>(i % 3), fd);
      ::close(fd);
    }
    const auto everyone = [&] {
      std::vector<std::byte> all(2 * 40 * sizeof(ino_t));
      group.all_gather(std::as_bytes(std::span(sent)), all);
      return all;
    }();
    for (int tag = 0; tag < 3; ++tag) {
      for (int i = tag; i < 40; i += 3) {
        const int fd = group.receive_fd(1 - group.rank(), static_cast<std::uint64_t>(tag));
        struct stat status {};
        require(::fstat(fd, &status) == 0, "a received memfd");
        ::close(fd);
        ino_t expected = 0;
        const auto index = static_cast<std::size_t>((1 - group.rank()) * 40 + i);
        std::memcpy(&expected, everyone.data() + index * sizeof(ino_t), sizeof(ino_t));
        require(status.st_ino == expected, "descriptor " + std::to_string(i));
      }
    }
  });
  EXPECT_EQ(failures(outcomes), "");
}

TEST_F(BootstrapGroup, PretendedHosts) {
  const int ranks = 4;
  Root root({.ranks = ranks, .interface_or_address = "127.0.0.1"});
  const auto outcomes = run_threads(ranks, [&](int rank) {
    Group group(root.id(), rank, ranks, {.host_id = rank < 2 ? "left" : "right"});
    const std::vector<int> expected = rank < 2 ? std::vector{0, 1} : std::vector{2, 3};
    require(group.local_ranks() == expected, "local ranks");
    require(group.same_host(rank ^ 1) && !group.same_host(rank ^ 2), "same_host");
    require(group.same_process(rank ^ 2), "one process");
    require_has(error_of([&] { group.send_fd(rank ^ 2, 0, 0); }),
                {"InvalidArgument", "another host"});
    group.barrier();
  });
  EXPECT_EQ(failures(outcomes), "");
}

TEST_F(BootstrapGroup, ProcessesKnowThatTheyAreSeveral) {
  const auto outcomes = run_group_processes(3, {}, [](Group& group) {
    for (int rank = 0; rank < 3; ++rank) {
      require(group.same_host(rank), "one host");
      require(group.same_process(rank) == (rank == group.rank()), "several processes");
    }
    gather_and_check(group, 1, 1000);
    group.barrier();
  });
  EXPECT_EQ(failures(outcomes), "");
}

// Two processes with two ranks each: threads after the fork.
TEST_F(BootstrapGroup, ThreadsAndProcessesMixed) {
  SharedId shared;
  const auto outcomes = run_processes(2, [&](int process) {
    std::optional<Root> root;
    if (process == 0) {
      root.emplace(RootOptions{.ranks = 4, .interface_or_address = "127.0.0.1"});
      shared.publish(root->id());
    }
    const UniqueId id = shared.wait();
    const auto threads = run_threads(2, [&](int thread) {
      Group group(id, 2 * process + thread, 4);
      require(group.same_process(group.rank() ^ 1) && !group.same_process(group.rank() ^ 2),
              "neighbour in this process");
      gather_and_check(group, 1, 500);
      group.send(group.rank() ^ 3, 1, block(group.rank(), 1, 50));
      require(group.receive(group.rank() ^ 3, 1) == block(group.rank() ^ 3, 1, 50), "a message");
      group.barrier();
    });
    require(failures(threads).empty(), failures(threads));
  });
  EXPECT_EQ(failures(outcomes), "");
}

TEST_F(BootstrapGroup, SeveralGroupsAtOnce) {
  Root first({.ranks = 3, .interface_or_address = "127.0.0.1"});
  Root second({.ranks = 3, .interface_or_address = "127.0.0.1"});
  const auto outcomes = run_threads(3, [&](int rank) {
    Group a(first.id(), rank, 3);
    Group b(second.id(), 2 - rank, 3);
    gather_and_check(b, 1, 10);
    gather_and_check(a, 2, 20);
    a = std::move(b);  // leaves the first
    gather_and_check(a, 3, 30);
    a.barrier();
  });
  EXPECT_EQ(failures(outcomes), "");
}

// A rank that is done may go while others go on; nobody is told of a loss.
TEST_F(BootstrapGroup, LeavingIsNoLoss) {
  const auto outcomes = run_group(6, {}, [](Group& group) {
    group.barrier();
    // Ranks 1 and 4 remain, with gaps on both sides.
    if (group.rank() != 1 && group.rank() != 4) return;
    std::this_thread::sleep_for(200ms);
    require(!group.lost(), "nobody lost");
    const int other = 5 - group.rank();
    group.send(other, 9, block(group.rank(), 9, 10));
    require(group.receive(other, 9) == block(other, 9, 10), "a message across the gap");
    group.check();
  });
  EXPECT_EQ(failures(outcomes), "");
}

// What was sent before a rank left is still received.
TEST_F(BootstrapGroup, LastWordsAreHeard) {
  const auto outcomes = run_group(3, {}, [](Group& group) {
    if (group.rank() == 0) return group.send(2, 1, block(0, 1, 3'000'000));
    if (group.rank() == 1) return;
    std::this_thread::sleep_for(100ms);
    require(group.receive(0, 1) == block(0, 1, 3'000'000), "the message of the rank that left");
  });
  EXPECT_EQ(failures(outcomes), "");
}

int free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  ::close(fd);
  return ntohs(address.sin_port);
}

void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }

TEST_F(BootstrapGroup, FromTheEnvironment) {
  const std::string port = std::to_string(free_port());
  const auto outcomes = run_processes(4, [&](int rank) {
    // Whoever starts first: here the root is last.
    if (rank == 0) std::this_thread::sleep_for(100ms);
    set("MASTER_ADDR", "localhost");
    set("MASTER_PORT", port);
    set("RUNGS_SECRET", "between us");
    Group group = Group::from_environment();
    require(group.rank() == rank && group.size() == 4, "rank and size");
    gather_and_check(group, 1, 100);
    group.barrier();
  });
  EXPECT_EQ(failures(outcomes), "");
}

// torchrun's agent holds MASTER_PORT itself.
TEST_F(BootstrapGroup, BesideTorchrunsStore) {
  const int port = free_port();
  const auto outcomes = run_processes(2, [&](int) {
    set("MASTER_ADDR", "127.0.0.1");
    set("MASTER_PORT", std::to_string(port - 1));
    set("TORCHELASTIC_USE_AGENT_STORE", "True");
    set("TORCHELASTIC_RUN_ID", "job");
    Group group = Group::from_environment();
    group.barrier();
  });
  EXPECT_EQ(failures(outcomes), "");
}

// Nodes of two ranks: the root listens everywhere, ranks say an address that others reach.
TEST_F(BootstrapGroup, SeveralNodesInTheEnvironment) {
  const std::string port = std::to_string(free_port());
  const auto outcomes = run_processes(4, [&](int rank) {
    set("LOCAL_WORLD_SIZE", "2");
    set("LOCAL_RANK", std::to_string(rank % 2));
    set("RUNGS_HOST_ID", rank < 2 ? "node 0" : "node 1");
    set("MASTER_ADDR", "127.0.0.1");
    set("RUNGS_BOOTSTRAP_PORT", port);
    Group group = Group::from_environment();
    require(group.local_ranks().size() == 2, "two local ranks");
    gather_and_check(group, 1, 100);
    group.barrier();
  });
  EXPECT_EQ(failures(outcomes), "");
}

TEST_F(BootstrapGroup, AloneWithoutALauncher) {
  const auto outcomes = run_processes(1, [](int) {
    for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"})
      ::unsetenv(name);
    Group group = Group::from_environment();
    require(group.size() == 1 && group.all_gather(5)[0] == 5, "a group of one");
    group.barrier();
  });
  EXPECT_EQ(failures(outcomes), "");
}

}  // namespace
}  // namespace rungs::bootstrap::test
