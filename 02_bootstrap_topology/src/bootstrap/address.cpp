#include "bootstrap/address.hpp"

#include <rungs/core/error.hpp>

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace rungs::bootstrap::detail {
namespace {

const sockaddr_in& v4(const sockaddr* address) {
  return *reinterpret_cast<const sockaddr_in*>(address);
}
const sockaddr_in6& v6(const sockaddr* address) {
  return *reinterpret_cast<const sockaddr_in6*>(address);
}

}  // namespace

Address Address::of(const sockaddr* address) {
  Address result;
  if (address->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6(address).sin6_addr)) {
    sockaddr_in plain{};
    plain.sin_family = AF_INET;
    plain.sin_port = v6(address).sin6_port;
    std::memcpy(&plain.sin_addr, v6(address).sin6_addr.s6_addr + 12, 4);
    std::memcpy(&result.storage_, &plain, sizeof(plain));
  } else if (address->sa_family == AF_INET6) {
    std::memcpy(&result.storage_, address, sizeof(sockaddr_in6));
  } else if (address->sa_family == AF_INET) {
    std::memcpy(&result.storage_, address, sizeof(sockaddr_in));
  }
  return result;
}

std::optional<Address> Address::from_text(const std::string& text, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(text.c_str(), nullptr, &hints, &found) != 0) return std::nullopt;
  const Address result = of(found->ai_addr).with_port(port);
  ::freeaddrinfo(found);
  return result;
}

Address Address::any(int family, std::uint16_t port) {
  Address result;
  result.storage_.ss_family = static_cast<sa_family_t>(family);
  return result.with_port(port);
}

Address Address::of_socket(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0)
    RUNGS_THROW(kSystem, "getsockname: ", std::generic_category().message(errno));
  return of(reinterpret_cast<const sockaddr*>(&storage));
}

Address Address::of_peer(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  // Whoever connected may be gone again: then there is no address to name.
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return {};
  return of(reinterpret_cast<const sockaddr*>(&storage));
}

socklen_t Address::raw_size() const noexcept {
  return family() == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

std::uint16_t Address::port() const noexcept {
  return ntohs(family() == AF_INET6 ? v6(raw()).sin6_port : v4(raw()).sin_port);
}

Address Address::with_port(std::uint16_t port) const {
  Address result = *this;
  if (family() == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&result.storage_)->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(&result.storage_)->sin_port = htons(port);
  }
  return result;
}

bool Address::is_loopback() const noexcept {
  if (family() == AF_INET6) return IN6_IS_ADDR_LOOPBACK(&v6(raw()).sin6_addr);
  return family() == AF_INET && ntohl(v4(raw()).sin_addr.s_addr) >> 24 == 127;
}

bool Address::is_any() const noexcept {
  if (family() == AF_INET6) return IN6_IS_ADDR_UNSPECIFIED(&v6(raw()).sin6_addr);
  return family() == AF_INET && v4(raw()).sin_addr.s_addr == htonl(INADDR_ANY);
}

bool Address::is_link_local() const noexcept {
  if (family() == AF_INET6) return IN6_IS_ADDR_LINKLOCAL(&v6(raw()).sin6_addr);
  return family() == AF_INET && ntohl(v4(raw()).sin_addr.s_addr) >> 16 == 0xa9fe;
}

std::string Address::host() const {
  std::array<char, NI_MAXHOST> text{};
  if (family() == AF_UNSPEC ||
      ::getnameinfo(raw(), raw_size(), text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return "unknown";
  }
  return text.data();
}

std::string Address::to_string() const {
  if (family() == AF_UNSPEC) return "an unknown address";
  return family() == AF_INET6 ? concat('[', host(), "]:", port()) : concat(host(), ':', port());
}

void Address::write(ByteWriter& out) const {
  std::array<std::byte, 16> bytes{};
  std::uint32_t scope = 0;
  if (family() == AF_INET6) {
    std::memcpy(bytes.data(), &v6(raw()).sin6_addr, 16);
    scope = v6(raw()).sin6_scope_id;
  } else {
    std::memcpy(bytes.data(), &v4(raw()).sin_addr, 4);
  }
  out.number(static_cast<std::uint16_t>(family() == AF_INET6 ? 6 : 4)).number(port());
  out.number(scope).bytes(bytes);
}

Address Address::read(ByteReader& in) {
  const auto version = in.number<std::uint16_t>();
  const auto port = in.number<std::uint16_t>();
  const auto scope = in.number<std::uint32_t>();
  std::array<std::byte, 16> bytes{};
  in.bytes(bytes);
  Address result;
  if (version == 6) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    // A scope is this machine's number of an interface; for other addresses than link-local ones it
    // must be 0.
    address.sin6_scope_id = scope;
    std::memcpy(&address.sin6_addr, bytes.data(), 16);
    std::memcpy(&result.storage_, &address, sizeof(address));
  } else if (version == 4) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    std::memcpy(&address.sin_addr, bytes.data(), 4);
    std::memcpy(&result.storage_, &address, sizeof(address));
  }
  return version == 4 || version == 6 ? result.with_port(port) : result;
}

}  // namespace rungs::bootstrap::detail
