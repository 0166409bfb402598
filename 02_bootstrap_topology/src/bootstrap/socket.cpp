#include "bootstrap/socket.hpp"

#include <rungs/core/error.hpp>

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <system_error>

namespace rungs::bootstrap::detail {
namespace {

void set(int fd, int level, int option, int value) noexcept {
  // Only tuning: a kernel that refuses one of them still carries the bytes.
  (void)::setsockopt(fd, level, option, &value, sizeof(value));
}

// Small frames leave at once. A host that vanished without a word (power, cable) is noticed after
// 5 + 5 · 1 s; a killed process needs none of this, its kernel closes the connection.
void tune(int fd) noexcept {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, 5);
  set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 10'000);
}

Moved moved(ssize_t bytes, bool zero_is_end) noexcept {
  if (bytes > 0) return {static_cast<std::size_t>(bytes), false, 0};
  if (bytes == 0) return {0, zero_is_end, 0};
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return {};
  return {0, true, errno};
}

}  // namespace

Event::Event() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!fd_) RUNGS_THROW(kSystem, "eventfd: ", error_text(errno));
}

void Event::signal() const noexcept {
  const std::uint64_t one = 1;
  (void)!::write(fd_.get(), &one, sizeof(one));  // fails only when it is signalled 2^64 times
}

void Event::clear() const noexcept {
  std::uint64_t count = 0;
  (void)!::read(fd_.get(), &count, sizeof(count));
}

std::string error_text(int error) {
  std::string text = std::generic_category().message(error);
  if (error == EMFILE) text += " in this process: raise `ulimit -n`";
  return text;
}

Descriptor listen_on(const Address& address, const std::string& what) {
  Descriptor fd(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) RUNGS_THROW(kSystem, what, ": socket: ", error_text(errno));
  // A port whose last connections have not quite faded away may be taken again.
  set(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.family() == AF_INET6) set(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  int error = ::bind(fd.get(), address.raw(), address.raw_size()) == 0 ? 0 : errno;
  if (error == 0 && ::listen(fd.get(), SOMAXCONN) != 0) error = errno;
  if (error == EADDRINUSE) {
    RUNGS_THROW(kSystem, what, ": port ", address.port(), " of ", address.host(),
                " is in use: end the program that holds it (`ss -ltnp sport = :", address.port(),
                "` shows it), or choose another port (under a launcher: RUNGS_BOOTSTRAP_PORT; "
                "0 in RootOptions takes a free one)");
  }
  if (error == EADDRNOTAVAIL) {
    RUNGS_THROW(kSystem, what, ": ", address.host(),
                " is no address of this machine: rank 0 must run where MASTER_ADDR points");
  }
  if (error != 0)
    RUNGS_THROW(kSystem, what, ": listen on ", address.to_string(), ": ", error_text(error));
  return fd;
}

void stop_listening(Descriptor& listener) noexcept {
  if (listener) ::shutdown(listener.get(), SHUT_RDWR);
  listener.reset();
}

Descriptor accept_from(int listener, int& error) noexcept {
  error = 0;
  while (true) {
    Descriptor fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd) {
      tune(fd.get());
      return fd;
    }
    // A connection that was reset before it was accepted says nothing about the next.
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) error = errno;
    return {};
  }
}

Descriptor start_connect(const Address& address) {
  Descriptor fd(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd)
    RUNGS_THROW(kSystem, "connect to ", address.to_string(), ": socket: ", error_text(errno));
  tune(fd.get());
  // The outcome, good or bad, is read by connect_result().
  (void)::connect(fd.get(), address.raw(), address.raw_size());
  return fd;
}

int connect_result(int fd) noexcept {
  int error = 0;
  socklen_t size = sizeof(error);
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  return error;
}

int poll_milliseconds(const Deadline& deadline, int at_most) noexcept {
  const double milliseconds = std::ceil(deadline.remaining().count() * 1000);
  return static_cast<int>(std::clamp(milliseconds, 0.0, double(at_most)));
}

Wait wait_for(int fd, short events, const Deadline& deadline, int interrupt) {
  while (true) {
    std::array<pollfd, 2> polled{{{fd, events, 0}, {interrupt, POLLIN, 0}}};
    const int ready = ::poll(polled.data(), interrupt < 0 ? 1 : 2, poll_milliseconds(deadline));
    if (ready < 0 && errno != EINTR) RUNGS_THROW(kSystem, "poll: ", error_text(errno));
    if (ready > 0 && polled[0].revents != 0) return Wait::kReady;
    if (ready > 0) return Wait::kInterrupted;
    if (deadline.passed()) return Wait::kTimeout;
  }
}

Moved read_some(int fd, std::span<std::byte> to) noexcept {
  if (to.empty()) return {};
  return moved(::recv(fd, to.data(), to.size(), 0), true);
}

Moved write_some(int fd, std::span<const std::byte> from) noexcept {
  return write_some(fd, from, {});
}

Moved write_some(int fd, std::span<const std::byte> first,
                 std::span<const std::byte> second) noexcept {
  std::array<iovec, 2> parts{{{const_cast<std::byte*>(first.data()), first.size()},
                              {const_cast<std::byte*>(second.data()), second.size()}}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  return moved(::sendmsg(fd, &message, MSG_NOSIGNAL), false);
}

int unacknowledged_bytes(int fd) noexcept {
  int bytes = 0;
  return ::ioctl(fd, SIOCOUTQ, &bytes) == 0 ? bytes : 0;
}

void acknowledge_now(int fd) noexcept {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof(on));  // fails on a Unix socket
}

}  // namespace rungs::bootstrap::detail
