#pragma once
/// @file socket_setup.hpp
/// Two TCP connections between two ranks, one a direction.

#include <rungs/core/descriptor.hpp>
#include "detail/handshake.hpp"

namespace rungs::transport::detail {

/// Non-blocking, without Nagle's delay. Each was opened by its sender.
struct SocketPair {
  Descriptor outgoing;
  Descriptor incoming;
};

/// Each rank listens at a port of its own, tells it the peer through the bootstrap together with 16
/// random bytes, and takes only the connection that begins with those.
SocketPair connect_sockets(SetUp& set_up);

}  // namespace rungs::transport::detail
