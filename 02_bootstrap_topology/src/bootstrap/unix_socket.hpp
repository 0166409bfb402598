#pragma once
/// @file unix_socket.hpp
/// Abstract Unix sockets: they need no file, vanish with their last descriptor, and carry
/// descriptors between processes of one host (SCM_RIGHTS).

#include "bootstrap/socket.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace rungs::bootstrap::detail {

/// A listening socket of this name (at most 100 bytes). @throws Error kSystem
Descriptor listen_on_unix(const std::string& name);
/// Connects at once: to a name nobody listens on it fails. @throws Error kSystem
Descriptor connect_unix(const std::string& name);
/// Whether the process at the other end runs as this process's user (or as root).
bool same_user(int fd) noexcept;

/// Sends bytes and a descriptor with the first of them.
Moved write_with_fd(int socket, std::span<const std::byte> bytes, int fd) noexcept;
/// Reads bytes; descriptors that came with them are appended to `fds`. One that the kernel dropped
/// (no descriptor free) is appended as empty.
Moved read_with_fds(int socket, std::span<std::byte> to, std::vector<Descriptor>& fds);

}  // namespace rungs::bootstrap::detail
