// A device in each of several processes.

#include "fixture.hpp"

#include <rungs/testing/ranks.hpp>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>

namespace rungs::verbs {
namespace {

using testing::failures;
using testing::RankOutcome;
using testing::run_processes;

// A throw-away rendezvous: a socket between each two ranks, made before they are forked.
class Mesh {
 public:
  explicit Mesh(int ranks) : ranks_(ranks), fds_(static_cast<std::size_t>(ranks * ranks), -1) {
    for (int a = 0; a < ranks; ++a) {
      for (int b = a + 1; b < ranks; ++b) {
        std::array<int, 2> pair{};
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0) {
          RUNGS_THROW(kSystem, "socketpair: errno ", errno);
        }
        fd(a, b) = pair[0];
        fd(b, a) = pair[1];
      }
    }
  }
  ~Mesh() {
    for (const int one : fds_) {
      if (one >= 0) close(one);
    }
  }
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  template <class T>
  void tell(int me, int peer, const T& mine) {
    if (write(fd(me, peer), &mine, sizeof mine) != static_cast<ssize_t>(sizeof mine)) {
      RUNGS_THROW(kSystem, "rank ", me, ": write to ", peer, " failed");
    }
  }
  template <class T>
  T hear(int me, int peer) {
    T theirs;
    pollfd wait{fd(me, peer), POLLIN, 0};
    std::size_t got = 0;
    while (got < sizeof theirs) {
      if (poll(&wait, 1, 30000) != 1) RUNGS_THROW(kTimeout, "rank ", me, ": no word from ", peer);
      const ssize_t size =
          read(fd(me, peer), reinterpret_cast<char*>(&theirs) + got, sizeof theirs - got);
      if (size <= 0) RUNGS_THROW(kPeerLost, "rank ", me, ": rank ", peer, " is gone");
      got += static_cast<std::size_t>(size);
    }
    return theirs;
  }
  template <class T>
  T exchange(int me, int peer, const T& mine) {
    tell(me, peer, mine);
    return hear<T>(me, peer);
  }

 private:
  int& fd(int a, int b) { return fds_[static_cast<std::size_t>(a * ranks_ + b)]; }
  int ranks_;
  std::vector<int> fds_;
};

struct Introduction {
  QpAddress qp;
  std::uint64_t address = 0;
  std::uint32_t rkey = 0;
};

Introduction introduce(End& end, const Memory& memory) {
  return {end.address(), memory.region().remote_address(), memory.region().rkey()};
}

// EXPECT in a forked rank is not seen by its parent.
void require(bool condition, const std::string& what) {
  if (!condition) RUNGS_THROW(kInternal, what);
}

Completion expect_success(End& end) {
  const Completion completion = end.wait();
  require(completion.status == Status::kSuccess, to_string(completion.status));
  return completion;
}

class Processes : public ::testing::TestWithParam<Wire> {};

TEST_P(Processes, WriteReadAndAddInEachOthersMemory) {
  Mesh mesh(2);
  const auto outcomes = run_processes(2, [&](int rank) {
    constexpr std::size_t kSize = 300000;
    End end(on(GetParam()));
    Memory own(end.pd, kSize + 8);
    Memory scratch(end.pd, kSize);
    own.fill_zero();
    const Introduction peer = mesh.exchange(rank, 1 - rank, introduce(end, own));
    end.qp->connect(peer.qp);
    mesh.exchange(rank, 1 - rank, 'c');
    const auto at_peer = [&](Opcode opcode, const Segment& segment, std::size_t offset) {
      SendRequest one = request(1, opcode, {&segment, 1});
      one.remote_address = peer.address + offset;
      one.rkey = peer.rkey;
      one.add_or_swap = 1;
      require(end.send(one).posted == 1, "not posted");
      expect_success(end);
    };
    scratch.fill(static_cast<std::uint64_t>(rank));
    at_peer(Opcode::kRdmaWrite, scratch.all(), 0);
    for (unsigned i = 0; i < 100; ++i) at_peer(Opcode::kFetchAdd, scratch.segment(0, 8), kSize);
    mesh.exchange(rank, 1 - rank, 'w');

    Memory expected(end.pd, kSize);
    expected.fill(static_cast<std::uint64_t>(1 - rank));
    require(std::equal(expected.bytes().begin(), expected.bytes().end(), own.bytes().begin()),
            "what the peer wrote is wrong");
    require(own.at<std::uint64_t>(kSize) == 100, "the peer's adds are wrong");
    scratch.poison();
    at_peer(Opcode::kRdmaRead, scratch.all(), 0);
    expected.fill(static_cast<std::uint64_t>(rank));
    require(scratch.bytes() == expected.bytes(), "what was read is not what was written");
    mesh.exchange(rank, 1 - rank, 'r');
  });
  EXPECT_EQ(failures(outcomes), "");
}

TEST_P(Processes, EightSendAroundARing) {
  constexpr int kRanks = 8;
  Mesh mesh(kRanks);
  const auto outcomes = run_processes(kRanks, [&](int rank) {
    const int next = (rank + 1) % kRanks;
    const int previous = (rank + kRanks - 1) % kRanks;
    End right(on(GetParam()));  // to the next rank
    QueuePairOptions options;
    options.send_cq = options.recv_cq = &right.cq;
    QueuePair left = right.pd.create_rc(options);  // from the previous one
    mesh.tell(rank, next, right.address());
    mesh.tell(rank, previous, left.address());
    right.qp->connect(mesh.hear<QpAddress>(rank, next));
    left.connect(mesh.hear<QpAddress>(rank, previous));
    const auto meet = [&] {
      mesh.tell(rank, next, 'm');
      mesh.tell(rank, previous, 'm');
      mesh.hear<char>(rank, next);
      mesh.hear<char>(rank, previous);
    };
    meet();
    Memory token(right.pd, 64);
    const Segment segment = token.all();
    constexpr std::uint64_t kLaps = 20;
    for (std::uint64_t lap = 0; lap < kLaps; ++lap) {
      const auto receive = [&] {
        const Completion completion = expect_success(right);
        if (!completion.receive) require(expect_success(right).receive, "no message");
      };
      require(left.post_recv(RecvRequest{1, {&segment, 1}}).posted == 1, "receive not posted");
      if (rank != 0) {
        receive();
        ++token.at<std::uint64_t>(0);
      } else {
        token.at<std::uint64_t>(0) = lap * 1000;
      }
      Memory out(right.pd, 64);
      out.at<std::uint64_t>(0) = token.at<std::uint64_t>(0);
      const Segment out_segment = out.all();
      SendRequest send = request(2, Opcode::kSend, {&out_segment, 1});
      require(right.send(send).posted == 1, "send not posted");
      if (rank == 0) {
        receive();
        require(token.at<std::uint64_t>(0) == lap * 1000 + kRanks - 1, "the token is wrong");
      } else {
        require(!expect_success(right).receive, "two messages in a lap");
      }
    }
    meet();
  });
  EXPECT_EQ(failures(outcomes), "");
}

// One rank is killed while the other writes to it without end: that one must learn of it within
// its retries, with everything behind flushed.
TEST_P(Processes, PeerKilledInATransferEndsWithRetryExceeded) {
  Mesh mesh(2);
  const auto outcomes = run_processes(2, [&](int rank) {
    EndOptions options = on(GetParam());
    options.qp.ack_timeout_seconds = 0.1;
    options.qp.retry_count = 4;
    End end(options);
    Memory own(end.pd, 1 << 20);
    own.fill_zero();
    const Introduction peer = mesh.exchange(rank, 1 - rank, introduce(end, own));
    end.qp->connect(peer.qp);
    mesh.exchange(rank, 1 - rank, 'c');
    if (rank == 1) {
      // Killed when bytes of the transfer have come.
      wait_until(
          [&] { return __atomic_load_n(&own.at<std::uint64_t>((1 << 20) - 8), __ATOMIC_ACQUIRE); },
          Deadline::standard(), [] { return std::string("the first write"); });
      std::raise(SIGKILL);
    }
    own.fill(1);
    const Segment segment = own.all();
    SendRequest write = request(1, Opcode::kRdmaWrite, {&segment, 1});
    write.remote_address = peer.address;
    write.rkey = peer.rkey;
    const Deadline deadline = Deadline::after(std::chrono::seconds(30));
    unsigned under_way = 0;
    Completion completion;
    do {
      require(!deadline.passed(), "the writes never fail");
      while (under_way < 4 && end.send(write).posted == 1) ++under_way;
      completion = end.wait();
      --under_way;
    } while (completion.status == Status::kSuccess);
    require(completion.status == Status::kRetryExceeded, to_string(completion.status));
    for (; under_way > 0; --under_way) {
      require(end.wait().status == Status::kFlushed, "not flushed");
    }
    require(end.qp->failed(), "the pair has not failed");
  });
  ASSERT_EQ(outcomes.size(), 2u);
  EXPECT_TRUE(outcomes[0].ok) << outcomes[0].text;
  EXPECT_FALSE(outcomes[1].ok);
  EXPECT_NE(outcomes[1].text.find("signal 9"), std::string::npos) << outcomes[1].text;
}

INSTANTIATE_TEST_SUITE_P(, Processes, ::testing::Values(Wire::kSharedMemory, Wire::kUdp),
                         [](const auto& one) { return name_of(one.param); });

}  // namespace
}  // namespace rungs::verbs
