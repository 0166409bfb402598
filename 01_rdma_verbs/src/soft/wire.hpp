#pragma once
// What carries packets between software HCAs. A packet is what follows the UDP header in RoCE v2:
// BTH, extended headers, payload, pad, ICRC. Wires may lose, repeat and reorder; the RC transport
// above repairs that.

#include <rungs/verbs/soft.hpp>
#include <rungs/verbs/types.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace rungs::verbs::soft {

// BTH 12 + largest extended header (AtomicETH 28) + MTU 4096 + pad 3 + ICRC 4, rounded up.
inline constexpr std::size_t kMaxPacketBytes = 4224;

// Where a device is reached. For kSharedMemory the Gid alone names it; for kUdp the last four bytes
// are the IPv4 address.
struct WireAddress {
  Gid gid{};
  std::uint16_t udp_port = 0;
  bool operator==(const WireAddress&) const = default;
};

// send(), receive() and connect() are called by one thread at a time, under the device's lock. One
// thread may be in wait() meanwhile, without that lock. wake() is for every thread, and sticks: a
// wait() that begins after it returns at once.
class PacketWire {
 public:
  virtual ~PacketWire() = default;
  virtual WireAddress local() const = 0;
  // Sends one packet. False: not now (ring or socket buffer full), try again later. A peer that is
  // gone swallows packets silently, as a network does.
  virtual bool send(const WireAddress& to, std::span<const std::byte> packet) = 0;
  // Takes one packet: its size, 0 when there is none. `from` is its sender.
  virtual std::size_t receive(std::span<std::byte> into, WireAddress& from) = 0;
  // Sleeps until a packet may be there, wake() is called or the time is over. May return early.
  virtual void wait(double seconds) = 0;
  virtual void wake() noexcept = 0;
  // Called once a connection is made, so that a wire can set up what it needs.
  virtual void connect(const WireAddress& to) { (void)to; }
};

std::unique_ptr<PacketWire> open_shared_memory_wire(
    const SoftOptions& options);                                        // wire_shared_memory.cpp
std::unique_ptr<PacketWire> open_udp_wire(const SoftOptions& options);  // wire_udp.cpp
// Loses, repeats, reorders and delays what is sent, from options.seed. Returns `wire` itself when
// every knob is zero.
std::unique_ptr<PacketWire> with_faults(std::unique_ptr<PacketWire> wire,
                                        const SoftOptions& options,
                                        std::uint64_t* packets_dropped);  // wire_faults.cpp

}  // namespace rungs::verbs::soft
