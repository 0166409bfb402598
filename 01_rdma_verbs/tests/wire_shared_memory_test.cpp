// What only the shared-memory wire has: rings that fill, peers that end or are killed, strangers.

#include "wire_fixture.hpp"

#include <gtest/gtest.h>

#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <string>
#include <thread>

namespace rungs::verbs::soft {
namespace {

TEST(SharedMemoryWire, AFullRingRefusesAndLosesNothing) {
  const auto a = open_wire(Wire::kSharedMemory);
  const auto b = open_wire(Wire::kSharedMemory);
  std::uint64_t sent = 0;
  while (a->send(b->local(), packet_of(1, sent))) ++sent;
  EXPECT_GT(sent, 64u);
  WireAddress from;
  for (std::uint64_t i = 0; i < sent; ++i) ASSERT_EQ(take(*b, from), packet_of(1, i)) << i;
  EXPECT_TRUE(a->send(b->local(), packet_of(1, sent)));
  EXPECT_EQ(take(*b, from), packet_of(1, sent));
}

TEST(SharedMemoryWire, ASenderSleepsUntilThereIsRoom) {
  const auto a = open_wire(Wire::kSharedMemory);
  const auto b = open_wire(Wire::kSharedMemory);
  while (a->send(b->local(), packet_of(1, 0))) {
  }
  std::thread receiver([&] {
    WireAddress from;
    std::this_thread::sleep_for(30ms);
    while (!take(*b, from, 0.2s).empty()) {
    }
  });
  const auto start = std::chrono::steady_clock::now();
  a->wait(30);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 20s);
  EXPECT_TRUE(a->send(b->local(), packet_of(1, 0)));
  receiver.join();
}

TEST(SharedMemoryWire, WhatAPeerSentBeforeItsEndArrives) {
  const auto a = open_wire(Wire::kSharedMemory);
  {
    const auto b = open_wire(Wire::kSharedMemory);
    for (std::uint64_t i = 0; i < 10; ++i) send_all(*b, a->local(), packet_of(1, i));
  }
  WireAddress from;
  for (std::uint64_t i = 0; i < 10; ++i) EXPECT_EQ(take(*a, from), packet_of(1, i));
  EXPECT_TRUE(take(*a, from, 10ms).empty());
  EXPECT_EQ(ring_mappings(), 0u) << "its memory is freed";
}

TEST(SharedMemoryWire, AKilledPeerSwallowsPacketsAndItsMemoryIsFreed) {
  std::array<int, 2> to_parent;
  std::array<int, 2> to_child;
  ASSERT_EQ(::pipe(to_parent.data()), 0);
  ASSERT_EQ(::pipe(to_child.data()), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto wire = open_wire(Wire::kSharedMemory);
    const WireAddress mine = wire->local();
    WireAddress parent;
    WireAddress from;
    if (::write(to_parent[1], &mine, sizeof(mine)) < 0) ::_exit(1);
    if (::read(to_child[0], &parent, sizeof(parent)) < 0) ::_exit(2);
    if (take(*wire, from).empty()) ::_exit(3);
    send_all(*wire, parent, packet_of(1, 1));
    ::pause();
    ::_exit(4);
  }
  {
    const auto wire = open_wire(Wire::kSharedMemory);
    const WireAddress mine = wire->local();
    WireAddress peer;
    ASSERT_GT(::read(to_parent[0], &peer, sizeof(peer)), 0);
    ASSERT_GT(::write(to_child[1], &mine, sizeof(mine)), 0);
    send_all(*wire, peer, packet_of(2, 2));
    WireAddress from;
    EXPECT_EQ(take(*wire, from), packet_of(1, 1));
    EXPECT_EQ(ring_mappings(), 2u);
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    // A wait notices the death and ends.
    const Deadline deadline = Deadline::after(20s);
    while (ring_mappings() != 0 && !deadline.passed()) {
      wire->wait(0.5);
      take(*wire, from, 0s);
    }
    EXPECT_EQ(ring_mappings(), 0u);
    for (std::uint64_t i = 0; i < 1000; ++i) EXPECT_TRUE(wire->send(peer, packet_of(3, i)));
    EXPECT_EQ(ring_mappings(), 0u);
  }
  for (const int fd : {to_parent[0], to_parent[1], to_child[0], to_child[1]}) ::close(fd);
}

TEST(SharedMemoryWire, AKilledPeerWithAFullRingBlocksNobody) {
  auto peer = open_wire(Wire::kSharedMemory);
  const WireAddress address = peer->local();
  const auto wire = open_wire(Wire::kSharedMemory);
  while (wire->send(address, packet_of(1, 0))) {
  }
  peer.reset();
  const Deadline deadline = Deadline::after(20s);
  while (!wire->send(address, packet_of(1, 0)) && !deadline.passed()) wire->wait(0.1);
  EXPECT_TRUE(wire->send(address, packet_of(1, 0)));
  EXPECT_EQ(ring_mappings(), 0u);
}

// Whoever knows the name can connect: nonsense must not get further than the greeting.
TEST(SharedMemoryWire, StrangersAreTurnedAway) {
  const auto wire = open_wire(Wire::kSharedMemory);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::string name = "rungs-verbs-";
  for (const std::uint8_t byte : wire->local().gid) {
    name += "0123456789abcdef"[byte >> 4];
    name += "0123456789abcdef"[byte & 15];
  }
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const std::size_t before = open_files();
  const int stranger = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::connect(stranger, reinterpret_cast<const sockaddr*>(&address),
                      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())),
            0);
  ASSERT_EQ(::send(stranger, "GET / HTTP/1.1", 14, MSG_NOSIGNAL), 14);
  wire->wait(1);
  wire->wait(0);
  char byte;
  EXPECT_EQ(::recv(stranger, &byte, 1, 0), 0) << "the wire has hung up";
  ::close(stranger);
  EXPECT_EQ(open_files(), before);
}

}  // namespace
}  // namespace rungs::verbs::soft
