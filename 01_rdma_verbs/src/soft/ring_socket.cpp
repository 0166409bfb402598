#include "ring_socket.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

namespace rungs::verbs::soft {
namespace {

constexpr std::array<char, 8> kMagic{'R', 'U', 'N', 'G', 'S', 'W', 'R', '1'};

// On the socket; the ring's descriptor travels beside it.
struct HelloBytes {
  std::array<char, 8> magic = kMagic;
  Gid from{};
};

struct SocketName {
  explicit SocketName(const Gid& gid) {
    std::string name("\0rungs-verbs-", 13);  // a leading zero: abstract
    for (const std::uint8_t byte : gid) {
      name += "0123456789abcdef"[byte >> 4];
      name += "0123456789abcdef"[byte & 15];
    }
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
  sockaddr_un address{};
  socklen_t length = 0;
};

Descriptor unix_socket() {
  // Sequenced packets: a message arrives whole or not at all.
  return Descriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

// A message of HelloBytes and one descriptor, for sendmsg() and recvmsg().
struct Message {
  explicit Message(HelloBytes& bytes) : data{&bytes, sizeof(bytes)} {
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;
  iovec data;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
};

// The descriptors that came with a message: all of them have to be closed by somebody.
std::vector<Descriptor> descriptors_of(msghdr& message) {
  std::vector<Descriptor> result;
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
    return result;
  }
  const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  for (std::size_t i = 0; i < count; ++i) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(fd));
    result.emplace_back(fd);
  }
  return result;
}

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

Descriptor listen_as(const Gid& gid, int backlog) {
  Descriptor socket = unix_socket();
  const SocketName name(gid);
  if (!socket || ::bind(socket.get(), name.get(), name.length) != 0 ||
      ::listen(socket.get(), backlog) != 0) {
    return {};
  }
  return socket;
}

Descriptor connect_to(const Gid& gid) {
  Descriptor socket = unix_socket();
  const SocketName name(gid);
  if (!socket || ::connect(socket.get(), name.get(), name.length) != 0) {
    const int reason = errno;
    socket = Descriptor();
    errno = reason;
    return {};
  }
  return socket;
}

Descriptor accept_own(const Descriptor& listener) {
  for (;;) {
    Descriptor socket(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) return {};
    ucred user{};
    socklen_t length = sizeof(user);
    if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &user, &length) == 0 &&
        user.uid == ::geteuid()) {
      return socket;
    }
  }
}

bool send_hello(const Descriptor& socket, const Gid& from, const Descriptor& ring) {
  HelloBytes bytes;
  bytes.from = from;
  Message message(bytes);
  cmsghdr* const header = CMSG_FIRSTHDR(&message.header);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = ring.get();
  std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  return ::sendmsg(socket.get(), &message.header, MSG_NOSIGNAL) ==
         static_cast<ssize_t>(sizeof(bytes));
}

Heard take_hello(const Descriptor& socket, Hello& hello) {
  HelloBytes bytes;
  Message message(bytes);
  const ssize_t size = ::recvmsg(socket.get(), &message.header, MSG_CMSG_CLOEXEC);
  if (size < 0 && would_block()) return Heard::kNothing;
  if (size <= 0) return Heard::kEnd;
  std::vector<Descriptor> files = descriptors_of(message.header);
  if (size != static_cast<ssize_t>(sizeof(bytes)) || bytes.magic != kMagic || files.size() != 1) {
    return Heard::kEnd;
  }
  hello.from = bytes.from;
  hello.ring = std::move(files[0]);
  return Heard::kSomething;
}

void ring_bell(const Descriptor& socket) {
  const char bell = 1;
  ::send(socket.get(), &bell, 1, MSG_NOSIGNAL);
}

Heard take_bells(const Descriptor& socket) {
  Heard heard = Heard::kNothing;
  std::array<char, 8> bells;
  for (;;) {
    const ssize_t size = ::recv(socket.get(), bells.data(), bells.size(), 0);
    if (size == 0) return Heard::kEnd;
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return would_block() ? heard : Heard::kEnd;
    heard = Heard::kSomething;
  }
}

}  // namespace rungs::verbs::soft
