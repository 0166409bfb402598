#include "bootstrap/unix_socket.hpp"

#include <rungs/core/error.hpp>

#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace rungs::bootstrap::detail {
namespace {

constexpr std::size_t kMostFds = 16;

struct UnixAddress {
  sockaddr_un raw{};
  socklen_t size = 0;
};

// A leading zero byte makes the name abstract.
UnixAddress abstract(const std::string& name) {
  UnixAddress address;
  RUNGS_ASSERT(name.size() + 1 <= sizeof(address.raw.sun_path), "name of ", name.size(), " bytes");
  address.raw.sun_family = AF_UNIX;
  std::memcpy(address.raw.sun_path + 1, name.data(), name.size());
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

Descriptor make_socket() {
  Descriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) RUNGS_THROW(kSystem, "Unix socket: ", error_text(errno));
  return fd;
}

}  // namespace

Descriptor listen_on_unix(const std::string& name) {
  Descriptor fd = make_socket();
  const UnixAddress address = abstract(name);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address.raw), address.size) != 0 ||
      ::listen(fd.get(), SOMAXCONN) != 0) {
    RUNGS_THROW(kSystem, "listen on the abstract Unix socket ", name, ": ", error_text(errno));
  }
  return fd;
}

Descriptor connect_unix(const std::string& name) {
  Descriptor fd = make_socket();
  const UnixAddress address = abstract(name);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address.raw), address.size) != 0)
    RUNGS_THROW(kSystem, "connect to the abstract Unix socket ", name, ": ", error_text(errno));
  return fd;
}

bool same_user(int fd) noexcept {
  ucred other{};
  socklen_t size = sizeof(other);
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &size) != 0) return false;
  return other.uid == ::geteuid() || other.uid == 0;
}

Moved write_with_fd(int socket, std::span<const std::byte> bytes, int fd) noexcept {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
  if (sent >= 0) return {static_cast<std::size_t>(sent), false, 0};
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return {};
  return {0, true, errno};
}

Moved read_with_fds(int socket, std::span<std::byte> to, std::vector<Descriptor>& fds) {
  iovec part{to.data(), to.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostFds * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return {};
  if (got < 0) return {0, true, errno};
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      fds.emplace_back(fd);
    }
  }
  if ((message.msg_flags & MSG_CTRUNC) != 0) fds.emplace_back();
  return {static_cast<std::size_t>(got), got == 0, 0};
}

}  // namespace rungs::bootstrap::detail
