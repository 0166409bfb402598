#include "icrc.hpp"

#include "crc32.hpp"

#include <array>
#include <cstring>

namespace rungs::verbs::soft {
namespace {

constexpr std::size_t kIcrcBytes = 4;
constexpr std::size_t kBthBytes = 12;
constexpr std::size_t kCongestionByte = 4;  // of the BTH: FECN, BECN and 6 reserved bits

void store_16(std::byte* to, std::uint32_t value) {
  to[0] = static_cast<std::byte>(value >> 8);
  to[1] = static_cast<std::byte>(value);
}
void store_32(std::byte* to, std::uint32_t value) {
  store_16(to, value >> 16);
  store_16(to + 2, value);
}

}  // namespace

std::uint32_t icrc(const IpHeader& ip, std::span<const std::byte> without_icrc) noexcept {
  // 8 bytes of ones, IPv4 20, UDP 8, BTH 12: filled with ones, then with what is not masked.
  constexpr std::size_t kIp = 8;
  constexpr std::size_t kUdp = kIp + 20;
  constexpr std::size_t kBth = kUdp + 8;
  std::array<std::byte, kBth + kBthBytes> head;
  head.fill(std::byte{0xff});
  const auto udp_bytes = static_cast<std::uint32_t>(8 + without_icrc.size() + kIcrcBytes);
  head[kIp] = std::byte{0x45};  // version 4, five words
  store_16(&head[kIp + 2], 20 + udp_bytes);
  store_16(&head[kIp + 4], ip.identification);
  store_16(&head[kIp + 6], ip.flags_and_offset);
  head[kIp + 9] = std::byte{17};  // UDP
  store_32(&head[kIp + 12], ip.source);
  store_32(&head[kIp + 16], ip.destination);
  store_16(&head[kUdp], ip.source_port);
  store_16(&head[kUdp + 2], ip.destination_port);
  store_16(&head[kUdp + 4], udp_bytes);
  std::memcpy(&head[kBth], without_icrc.data(), kBthBytes);
  head[kBth + kCongestionByte] = std::byte{0xff};
  return crc32(crc32(0, head), without_icrc.subspan(kBthBytes));
}

}  // namespace rungs::verbs::soft
