#pragma once
/// @file address.hpp
/// An IPv4 or IPv6 address with its port, and the addresses this machine has.

#include "bootstrap/bytes.hpp"

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rungs::bootstrap::detail {

class Address {
 public:
  Address() = default;
  /// From what the kernel gives. An IPv4 address that an IPv6 socket saw (::ffff:a.b.c.d) becomes
  /// IPv4.
  static Address of(const sockaddr* address);
  /// "10.0.0.7", "::1", "fe80::1%eth0"; nothing for anything that is no number.
  static std::optional<Address> from_text(const std::string& text, std::uint16_t port);
  static Address any(int family, std::uint16_t port);
  /// The address that a socket is bound to.
  static Address of_socket(int fd);
  static Address of_peer(int fd);

  [[nodiscard]] const sockaddr* raw() const noexcept {
    return reinterpret_cast<const sockaddr*>(&storage_);
  }
  [[nodiscard]] socklen_t raw_size() const noexcept;
  [[nodiscard]] int family() const noexcept { return storage_.ss_family; }
  [[nodiscard]] std::uint16_t port() const noexcept;
  [[nodiscard]] Address with_port(std::uint16_t port) const;
  [[nodiscard]] bool is_loopback() const noexcept;
  [[nodiscard]] bool is_any() const noexcept;
  [[nodiscard]] bool is_link_local() const noexcept;
  /// "10.0.0.7", "::1".
  [[nodiscard]] std::string host() const;
  /// "10.0.0.7:29500", "[::1]:29500".
  [[nodiscard]] std::string to_string() const;
  [[nodiscard]] bool same_host(const Address& other) const { return host() == other.host(); }

  static constexpr std::size_t kWireBytes = 24;
  void write(ByteWriter& out) const;
  static Address read(ByteReader& in);

 private:
  sockaddr_storage storage_{};
};

/// One address of one interface that is up.
struct Interface {
  std::string name;
  Address address;
};
std::vector<Interface> interfaces();

/// The address that "eth0", "10.0.0.7" or "::1" means. Empty: what RUNGS_SOCKET_IFNAME says, else
/// the first interface that is neither docker's, a bridge of virtual machines nor loopback (IPv4
/// before IPv6), else loopback.
/// @param family AF_UNSPEC, or the only one that will do
/// @throws Error kInvalidArgument naming the interfaces there are
Address choose_address(const std::string& interface_or_address, int family = AF_UNSPEC);

/// Addresses of a host name, best first; asked again until the deadline while the name server does
/// not answer. @throws Error kSystem
std::vector<Address> resolve(const std::string& name, std::uint16_t port, double seconds);

}  // namespace rungs::bootstrap::detail
