#pragma once
// The Unix socket beside a ring: how a device is found by its Gid, how a ring is handed over, and
// the bytes that wake who sleeps.

#include "wake_event.hpp"
#include "wire.hpp"

#include <optional>

namespace rungs::verbs::soft {

// A non-blocking socket at which a device of this Gid is found, in the abstract name space: no
// file, and gone with its owner. Empty: errno says why.
Descriptor listen_as(const Gid& gid, int backlog);
// A connection to the device of this Gid. Empty: errno says why (ECONNREFUSED: no such device).
Descriptor connect_to(const Gid& gid);
// The next connection that waits; empty: none. Other users' are closed: the abstract name space has
// no permissions.
Descriptor accept_own(const Descriptor& listener);

// What a sender says first: who it is, with its ring.
struct Hello {
  Gid from{};
  Descriptor ring;
};
bool send_hello(const Descriptor& socket, const Gid& from, const Descriptor& ring);
enum class Heard { kNothing, kSomething, kEnd };
// kSomething: `hello` is set. kEnd: what came is none.
Heard take_hello(const Descriptor& socket, Hello& hello);

// Wakes who polls the other end. A full socket has bytes that wake it as well.
void ring_bell(const Descriptor& socket);
// Takes what is there. kEnd: the other end is closed.
Heard take_bells(const Descriptor& socket);

}  // namespace rungs::verbs::soft
