// The wires by themselves: both carry any packet, in any number, between threads and processes, and
// outlive their peers.

#include "wire_fixture.hpp"

#include <gtest/gtest.h>
#include <rungs/core/error.hpp>
#include <rungs/testing/ranks.hpp>

#include <unistd.h>
#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace rungs::verbs::soft {
namespace {

class EveryWire : public ::testing::TestWithParam<Wire> {};
INSTANTIATE_TEST_SUITE_P(, EveryWire, ::testing::Values(Wire::kSharedMemory, Wire::kUdp),
                         [](const auto& tested) {
                           return std::string(tested.param == Wire::kUdp ? "Udp" : "SharedMemory");
                         });

TEST_P(EveryWire, CarriesPacketsOfEverySizeAndNamesTheirSender) {
  const auto a = open_wire(GetParam());
  const auto b = open_wire(GetParam());
  ASSERT_NE(a->local(), b->local());
  for (std::size_t size = 16; size <= 4124; size += size < 200 ? 1 : 97) {
    Bytes packet(size, static_cast<std::byte>(size));
    send_all(*a, b->local(), packet);
    WireAddress from;
    EXPECT_EQ(take(*b, from), packet);
    EXPECT_EQ(from, a->local());
    send_all(*b, a->local(), packet);  // and back
    EXPECT_EQ(take(*a, from), packet);
    EXPECT_EQ(from, b->local());
  }
}

TEST_P(EveryWire, CanSendToItself) {
  const auto wire = open_wire(GetParam());
  const Bytes packet = packet_of(1, 1);
  send_all(*wire, wire->local(), packet);
  WireAddress from;
  EXPECT_EQ(take(*wire, from), packet);
  EXPECT_EQ(from, wire->local());
}

TEST_P(EveryWire, WakeEndsAWait) {
  const auto wire = open_wire(GetParam());
  std::atomic<bool> woken = false;
  std::thread sleeper([&] {
    wire->wait(30);
    woken = true;
  });
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(woken);
  const Deadline deadline = Deadline::after(20s);
  wire->wake();
  while (!woken && !deadline.passed()) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(woken);
  sleeper.join();
  wire->wake();  // before the wait: kept
  const auto start = std::chrono::steady_clock::now();
  wire->wait(30);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 20s);
}

TEST_P(EveryWire, AWaitEndsByItself) {
  const auto wire = open_wire(GetParam());
  const auto start = std::chrono::steady_clock::now();
  wire->wait(0.05);
  EXPECT_GE(std::chrono::steady_clock::now() - start, 49ms);
}

TEST_P(EveryWire, APeerThatNeverWasSwallowsPackets) {
  const auto wire = open_wire(GetParam());
  WireAddress nobody = wire->local();
  if (GetParam() == Wire::kUdp) {
    nobody = open_wire(GetParam())->local();  // closed again
  } else {
    nobody.gid[9] ^= 1;
  }
  for (std::uint64_t i = 0; i < 1000; ++i) EXPECT_TRUE(wire->send(nobody, packet_of(2, i)));
}

// Streams from several threads meet in one wire.
TEST_P(EveryWire, ThreadsSendToOne) {
  constexpr std::uint64_t kPackets = 3000;
  constexpr int kSenders = 3;
  const auto receiver = open_wire(GetParam());
  std::vector<std::unique_ptr<PacketWire>> senders;
  for (int i = 0; i < kSenders; ++i) senders.push_back(open_wire(GetParam()));
  std::map<Gid, std::uint64_t> by_gid;  // UDP: one Gid, told apart by the port
  std::map<std::uint16_t, std::uint64_t> by_port;
  for (std::uint64_t i = 0; i < kSenders; ++i) {
    by_gid[senders[i]->local().gid] = i;
    by_port[senders[i]->local().udp_port] = i;
  }
  std::vector<std::atomic<std::uint64_t>> received(kSenders);
  const auto outcomes = testing::run_threads(kSenders + 1, [&](int rank) {
    if (rank < kSenders) {
      const auto me = static_cast<std::uint64_t>(rank);
      for (std::uint64_t i = 0; i < kPackets; ++i) {
        // UDP loses what its receiver's socket does not hold: stay within it.
        while (i - received[me] >= 64) std::this_thread::yield();
        send_all(*senders[me], receiver->local(), packet_of(me, i));
      }
      return;
    }
    std::uint64_t total = 0;
    while (total < kSenders * kPackets) {
      WireAddress from;
      const Bytes packet = take(*receiver, from);
      const std::uint64_t sender =
          GetParam() == Wire::kUdp ? by_port.at(from.udp_port) : by_gid.at(from.gid);
      const std::uint64_t index = received[sender];
      if (packet != packet_of(sender, index)) {
        RUNGS_THROW(kInternal, "packet ", index, " of sender ", sender, " is wrong");
      }
      ++received[sender];
      ++total;
    }
  });
  EXPECT_EQ(testing::failures(outcomes), "");
}

// An engine sleeps in wait() while other threads use the wire under the device's lock, and take
// what would have ended its sleep: no packet may be left without anybody awake.
TEST_P(EveryWire, AThreadWaitsBesideTheOthers) {
  constexpr std::uint64_t kPackets = 2000;
  const auto a = open_wire(GetParam());
  const auto b = open_wire(GetParam());
  std::mutex device;
  std::atomic<std::uint64_t> received = 0;
  std::atomic<bool> done = false;
  const auto receive_all = [&](bool& wrong) {
    const std::lock_guard lock(device);
    Bytes bytes(kMaxPacketBytes);
    WireAddress from;
    while (const std::size_t size = b->receive(bytes, from)) {
      const Bytes packet(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
      if (packet != packet_of(1, received)) wrong = true;
      ++received;
    }
  };
  const auto outcomes = testing::run_threads(3, [&](int rank) {
    bool wrong = false;
    if (rank == 0) {  // the engine of b: only it must be awake for the last packet
      while (received < kPackets) {
        receive_all(wrong);
        if (received < kPackets) b->wait(30);
      }
      done = true;
    } else if (rank == 1) {  // a user of b that polls now and then
      testing::Random random(5);
      while (!done) {
        receive_all(wrong);
        std::this_thread::sleep_for(std::chrono::microseconds(random.below(300)));
        if (received == kPackets) b->wake();
      }
    } else {
      testing::Random random(6);
      for (std::uint64_t i = 0; i < kPackets; ++i) {
        while (i - received >= 64) std::this_thread::yield();
        send_all(*a, b->local(), packet_of(1, i));
        if (random.below(16) == 0) std::this_thread::sleep_for(100us);
      }
    }
    if (wrong) RUNGS_THROW(kInternal, "a packet is wrong");
  });
  EXPECT_EQ(testing::failures(outcomes), "");
}

// The address travels through a pipe, as through any bootstrap.
TEST_P(EveryWire, WorksBetweenProcesses) {
  constexpr std::uint64_t kPackets = 2000;
  std::array<std::array<int, 2>, 2> pipes;
  for (auto& pipe : pipes) ASSERT_EQ(::pipe(pipe.data()), 0);
  const auto outcomes = testing::run_processes(2, [&](int rank) {
    const auto wire = open_wire(GetParam());
    const auto me = static_cast<std::size_t>(rank);
    const WireAddress mine = wire->local();
    WireAddress peer;
    if (::write(pipes[me][1], &mine, sizeof(mine)) != static_cast<ssize_t>(sizeof(mine)) ||
        ::read(pipes[1 - me][0], &peer, sizeof(peer)) != static_cast<ssize_t>(sizeof(peer))) {
      RUNGS_THROW(kSystem, "pipe");
    }
    // Both send and receive; an answer for every packet keeps UDP from losing any.
    for (std::uint64_t i = 0; i < kPackets; ++i) {
      send_all(*wire, peer, packet_of(me, i));
      WireAddress from;
      if (take(*wire, from) != packet_of(1 - me, i)) {
        RUNGS_THROW(kInternal, "packet ", i, " is wrong");
      }
      if (from != peer) RUNGS_THROW(kInternal, "a stranger sent packet ", i);
    }
  });
  EXPECT_EQ(testing::failures(outcomes), "");
  for (auto& pipe : pipes) {
    for (const int fd : pipe) ::close(fd);
  }
}

TEST_P(EveryWire, NothingIsLeftOpen) {
  { const auto warm_up = open_wire(GetParam()); }
  const std::size_t before = open_files();
  for (int round = 0; round < 3; ++round) {
    const auto a = open_wire(GetParam());
    const auto b = open_wire(GetParam());
    WireAddress from;
    send_all(*a, b->local(), packet_of(1, 1));
    take(*b, from);
    send_all(*b, a->local(), packet_of(1, 2));
    take(*a, from);
  }
  EXPECT_EQ(open_files(), before);
  EXPECT_EQ(ring_mappings(), 0u);
}

}  // namespace
}  // namespace rungs::verbs::soft
