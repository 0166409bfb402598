#pragma once
/// @file socket.hpp
/// Descriptors that close themselves, and non-blocking TCP sockets whose every wait has an end.

#include "bootstrap/address.hpp"

#include <rungs/core/deadline.hpp>
#include <rungs/core/descriptor.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace rungs::bootstrap::detail {

/// A flag that poll() can wait for (an eventfd): signalled until cleared, or for ever.
class Event {
 public:
  Event();
  void signal() const noexcept;
  void clear() const noexcept;
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }

 private:
  Descriptor fd_;
};

/// The text of an errno.
std::string error_text(int error);

/// A listening socket; port 0 takes a free one.
/// @param what who listens, for the error text: "rendezvous"
/// @throws Error kSystem: port in use (with the way out), address not of this machine
Descriptor listen_on(const Address& address, const std::string& what);
/// Stops answering, also for copies of the descriptor in forked processes, and closes.
void stop_listening(Descriptor& listener) noexcept;
/// The next connection, non-blocking; empty when there is none. `error` becomes EMFILE and the
/// like.
Descriptor accept_from(int listener, int& error) noexcept;

/// Starts connecting. @throws Error kSystem if no socket can be made
Descriptor start_connect(const Address& address);
/// 0, EINPROGRESS, or why the connection failed.
int connect_result(int fd) noexcept;

/// What a wait for a descriptor ended with.
enum class Wait { kReady, kTimeout, kInterrupted };
/// Polls one descriptor for `events` until the deadline or until `interrupt` (optional) is
/// signalled.
Wait wait_for(int fd, short events, const Deadline& deadline, int interrupt = -1);
/// Milliseconds for poll(), rounded up.
int poll_milliseconds(const Deadline& deadline, int at_most = 60'000) noexcept;

/// Result of a non-blocking read or write: bytes moved, 0 if it would block.
struct Moved {
  std::size_t bytes = 0;
  bool closed = false;  ///< read: end of file or reset; write: the other end is gone
  int error = 0;        ///< errno of a reset
};
Moved read_some(int fd, std::span<std::byte> to) noexcept;
Moved write_some(int fd, std::span<const std::byte> from) noexcept;
/// Two pieces in one call: a frame's header and its payload.
Moved write_some(int fd, std::span<const std::byte> first,
                 std::span<const std::byte> second) noexcept;
/// Written bytes, the end of the stream included, that the other end's kernel has not acknowledged
/// (a Unix socket: that were not read).
int unacknowledged_bytes(int fd) noexcept;
/// Acknowledges what has arrived without waiting for something to send along.
void acknowledge_now(int fd) noexcept;

}  // namespace rungs::bootstrap::detail
