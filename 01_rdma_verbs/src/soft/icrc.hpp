#pragma once
// The invariant CRC at the end of every RoCE v2 packet: a CRC-32 over everything that no switch may
// change (InfiniBand Architecture Specification, annex A17.3.3). Fields that a switch may change
// count as ones: IPv4 type of service, time to live and checksum, the UDP checksum and byte 4 of
// the BTH (FECN, BECN). 8 bytes of ones stand for the InfiniBand local header that RoCE lacks.

#include <rungs/config.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace rungs::verbs::soft {

// What the ICRC covers of the headers in front of the BTH. An RDMA NIC sees them all. A program
// with a UDP socket sees addresses and ports of what it sends and receives, but neither
// identification nor flags: they take the values that Linux gives a datagram of an unconnected
// socket that must not be fragmented (IP_MTU_DISCOVER = IP_PMTUDISC_DO), which is how the UDP wire
// sends. So its packets carry the right ICRC on the network, and packets of a sender that numbers
// its datagrams (a NIC, Linux rxe) cannot be checked through a socket.
struct IpHeader {
  std::uint32_t source = 0;  // host byte order, as all fields
  std::uint32_t destination = 0;
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
  std::uint16_t identification = 0;
  std::uint16_t flags_and_offset = 0x4000;  // "do not fragment"
};

// The ICRC of a packet that begins with its BTH, without the ICRC's own 4 bytes. On the wire the
// least significant byte goes first. @param without_icrc at least 12 bytes
std::uint32_t icrc(const IpHeader& ip, std::span<const std::byte> without_icrc) noexcept;

}  // namespace rungs::verbs::soft
