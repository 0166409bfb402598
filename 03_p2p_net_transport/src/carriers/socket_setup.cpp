#include "carriers/socket_setup.hpp"

#include "detail/context_state.hpp"

#include <rungs/core/env.hpp>
#include <rungs/core/error.hpp>
#include <rungs/core/random_bytes.hpp>

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace rungs::transport::detail {
namespace {

using Nonce = std::array<unsigned char, 16>;

struct Endpoint {
  sockaddr_storage address{};
  socklen_t length = 0;
  Nonce nonce{};
};

socklen_t length_of(const sockaddr_storage& address) {
  return address.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

// Where this rank can be reached: over loopback inside a host; else at RUNGS_SOCKET_IFNAME, or the
// first interface that is up and neither loopback nor docker's.
sockaddr_storage own_address(bool loopback) {
  sockaddr_storage address{};
  if (loopback) {
    auto& local = reinterpret_cast<sockaddr_in&>(address);
    local.sin_family = AF_INET;
    local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  const std::string wanted = env::string("RUNGS_SOCKET_IFNAME", "");
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) RUNGS_THROW(kSystem, "getifaddrs: ", std::strerror(errno));
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0) continue;
    const int family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const std::string name = one->ifa_name;
    const bool skipped = (one->ifa_flags & IFF_LOOPBACK) != 0 || name.rfind("docker", 0) == 0;
    if (wanted.empty() ? skipped : name != wanted) continue;
    if (address.ss_family == AF_INET) break;  // IPv4 where there is one
    std::memcpy(&address, one->ifa_addr,
                family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
  }
  freeifaddrs(all);
  if (address.ss_family == AF_UNSPEC) {
    RUNGS_THROW(kSystem, "connect by socket: ",
                wanted.empty() ? "no interface but loopback is up"
                               : concat("RUNGS_SOCKET_IFNAME=", wanted, " is up nowhere here"));
  }
  return address;
}

Descriptor make_socket(int family) {
  Descriptor socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.get() < 0) RUNGS_THROW(kSystem, "socket: ", std::strerror(errno));
  return socket;
}

void without_delay(const Descriptor& socket) {
  const int on = 1;
  (void)setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

Descriptor listen_at(Endpoint& endpoint) {
  Descriptor listener = make_socket(endpoint.address.ss_family);
  auto* const address = reinterpret_cast<sockaddr*>(&endpoint.address);
  endpoint.length = length_of(endpoint.address);
  if (bind(listener.get(), address, endpoint.length) != 0 || listen(listener.get(), 16) != 0 ||
      getsockname(listener.get(), address, &endpoint.length) != 0) {
    RUNGS_THROW(kSystem, "connect by socket: cannot listen: ", std::strerror(errno));
  }
  return listener;
}

Descriptor dial(SetUp& set_up, const Endpoint& endpoint) {
  Descriptor socket = make_socket(endpoint.address.ss_family);
  const auto* const address = reinterpret_cast<const sockaddr*>(&endpoint.address);
  int reason = ::connect(socket.get(), address, endpoint.length) == 0 ? 0 : errno;
  if (reason == EINPROGRESS) {
    pollfd writable{socket.get(), POLLOUT, 0};
    set_up.until([&] { return poll(&writable, 1, 0) > 0; }, "its socket to answer");
    socklen_t size = sizeof(reason);
    (void)getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &reason, &size);
  }
  if (reason != 0) {
    RUNGS_THROW(kSystem, "connect by socket: rank ", set_up.peer(),
                " cannot be reached: ", std::strerror(reason));
  }
  without_delay(socket);
  // 16 bytes fit the empty send buffer.
  const ssize_t sent =
      ::send(socket.get(), endpoint.nonce.data(), endpoint.nonce.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(endpoint.nonce.size()))
    RUNGS_THROW(kPeerLost, "connect by socket: rank ", set_up.peer(), " closed at once");
  return socket;
}

// A connection whose first bytes are still coming.
struct Caller {
  Descriptor socket;
  Nonce said{};
  std::size_t bytes = 0;
};

// Strangers are dropped; one who says nothing holds nobody up.
Descriptor answer(SetUp& set_up, const Descriptor& listener, const Nonce& nonce) {
  std::vector<Caller> callers;
  Descriptor found;
  const auto look = [&] {
    const int fd = accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) callers.push_back({Descriptor(fd)});
    for (auto caller = callers.begin(); caller != callers.end();) {
      const ssize_t got = recv(caller->socket.get(), caller->said.data() + caller->bytes,
                               nonce.size() - caller->bytes, 0);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        ++caller;
        continue;
      }
      if (got > 0) caller->bytes += static_cast<std::size_t>(got);
      if (got > 0 && caller->bytes < nonce.size()) {
        ++caller;
      } else if (got > 0 && caller->said == nonce) {
        found = std::move(caller->socket);
        return true;
      } else {
        caller = callers.erase(caller);
      }
    }
    return false;
  };
  set_up.until(look, "its socket to call");
  without_delay(found);
  return found;
}

}  // namespace

SocketPair connect_sockets(SetUp& set_up) {
  Endpoint mine;
  mine.address = own_address(set_up.context().group().same_host(set_up.peer()));
  fill_random(std::as_writable_bytes(std::span(mine.nonce)));
  const Descriptor listener = listen_at(mine);
  const Endpoint theirs = set_up.exchange(mine);
  SocketPair sockets;
  sockets.outgoing = dial(set_up, theirs);
  sockets.incoming = answer(set_up, listener, mine.nonce);
  return sockets;
}

}  // namespace rungs::transport::detail
