// RoCE v2 packets in UDP datagrams. The kernel writes the Ethernet, IP and UDP headers; what lies
// between them and the ICRC is what a hardware HCA would send.

#include "wake_event.hpp"
#include "wire.hpp"

#include <rungs/core/error.hpp>
#include <rungs/core/log.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

namespace rungs::verbs::soft {
namespace {

// A receiver that is busy for a while should find its packets still there. The kernel may grant
// less (net.core.rmem_max); what does not fit is lost, and sent again.
constexpr int kSocketBufferBytes = 4 << 20;

Gid mapped_gid(in_addr address) {  // ::ffff:a.b.c.d
  Gid gid{};
  gid[10] = gid[11] = 0xff;
  std::memcpy(&gid[12], &address, 4);
  return gid;
}

sockaddr_in to_sockaddr(const WireAddress& address) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_port = htons(address.udp_port);
  std::memcpy(&result.sin_addr, &address.gid[12], 4);
  return result;
}

WireAddress to_wire_address(const sockaddr_in& address) {
  return {mapped_gid(address.sin_addr), ntohs(address.sin_port)};
}

class UdpWire final : public PacketWire {
 public:
  explicit UdpWire(const SoftOptions& options)
      : socket_(::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    if (!socket_ || !wake_) RUNGS_THROW(kSystem, "a UDP socket: ", std::strerror(errno));
    for (const int buffer : {SO_RCVBUF, SO_SNDBUF}) {
      ::setsockopt(socket_.get(), SOL_SOCKET, buffer, &kSocketBufferBytes,
                   sizeof(kSocketBufferBytes));
    }
    // RoCE v2 is never fragmented; this also fixes the IP fields that the ICRC covers (icrc.hpp).
    const int never_fragment = IP_PMTUDISC_DO;
    ::setsockopt(socket_.get(), IPPROTO_IP, IP_MTU_DISCOVER, &never_fragment,
                 sizeof(never_fragment));
    bind_to(options.address, options.udp_port);
  }

  WireAddress local() const override { return local_; }

  bool send(const WireAddress& to, std::span<const std::byte> packet) override {
    const sockaddr_in address = to_sockaddr(to);
    for (;;) {
      if (::sendto(socket_.get(), packet.data(), packet.size(), MSG_NOSIGNAL,
                   reinterpret_cast<const sockaddr*>(&address), sizeof(address)) >= 0) {
        return true;
      }
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) {
        // wait() must look for room, too: one that sleeps already starts anew.
        send_blocked_.store(true, std::memory_order_relaxed);
        wake();
        return false;
      }
      explain(to, packet.size(), errno);
      return true;  // lost, as a network loses it: the transport's retries end in an error
    }
  }

  std::size_t receive(std::span<std::byte> into, WireAddress& from) override {
    for (;;) {
      sockaddr_in address{};
      socklen_t length = sizeof(address);
      // MSG_TRUNC: the datagram's own size comes back, so one that does not fit is seen.
      const ssize_t size = ::recvfrom(socket_.get(), into.data(), into.size(), MSG_TRUNC,
                                      reinterpret_cast<sockaddr*>(&address), &length);
      if (size < 0 && errno == EINTR) continue;
      if (size < 0) return 0;  // none there, or the fate of an earlier one (ICMP)
      if (size == 0 || static_cast<std::size_t>(size) > into.size()) continue;  // no packet
      from = to_wire_address(address);
      return static_cast<std::size_t>(size);
    }
  }

  void wait(double seconds) override {
    const bool blocked = send_blocked_.exchange(false, std::memory_order_relaxed);
    const auto events = static_cast<short>(blocked ? POLLIN | POLLOUT : POLLIN);
    std::array<pollfd, 2> fds{{{socket_.get(), events, 0}, {wake_.get(), POLLIN, 0}}};
    poll_for(fds, seconds);
    if ((fds[1].revents & POLLIN) != 0) wake_.drain();
  }

  void wake() noexcept override { wake_.signal(); }

 private:
  void bind_to(const std::string& text, std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    RUNGS_REQUIRE(::inet_pton(AF_INET, text.c_str(), &address.sin_addr) == 1, "address \"", text,
                  "\" is no IPv4 address such as 192.168.1.20");
    RUNGS_REQUIRE(address.sin_addr.s_addr != htonl(INADDR_ANY),
                  "address 0.0.0.0 means every interface, but peers must be told one: name the "
                  "address of the interface they reach");
    if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      const int reason = errno;
      if (reason == EADDRINUSE) {
        RUNGS_THROW(kSystem, "UDP port ", port, " of ", text,
                    " is in use by another program: choose another udp_port, or 0 for a free one");
      }
      if (reason == EADDRNOTAVAIL) {
        RUNGS_THROW(kSystem, "no interface of this machine has the address ", text,
                    ": `ip -4 address` lists those that are there");
      }
      RUNGS_THROW(kSystem, "UDP port ", port, " of ", text, ": ", std::strerror(reason));
    }
    socklen_t length = sizeof(address);
    if (::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
      RUNGS_THROW(kSystem, "the UDP socket's own address: ", std::strerror(errno));
    }
    local_ = to_wire_address(address);
  }

  // Once a wire: a packet that never arrives is hard enough to find.
  void explain(const WireAddress& to, std::size_t size_bytes, int reason) {
    if (explained_) return;
    explained_ = true;
    const sockaddr_in address = to_sockaddr(to);
    std::array<char, INET_ADDRSTRLEN> text{};
    ::inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
    log::warn("a packet of ", size_bytes, " bytes to ", text.data(), ":", to.udp_port,
              " was not sent: ", std::strerror(reason),
              reason == EMSGSIZE ? "; the path takes less: set mtu_bytes to 1024" : "");
  }

  Descriptor socket_;
  WakeEvent wake_;
  WireAddress local_;
  std::atomic<bool> send_blocked_ = false;
  bool explained_ = false;
};

}  // namespace

std::unique_ptr<PacketWire> open_udp_wire(const SoftOptions& options) {
  return std::make_unique<UdpWire>(options);
}

}  // namespace rungs::verbs::soft
