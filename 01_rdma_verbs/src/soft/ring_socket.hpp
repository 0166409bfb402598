#pragma once
// The Unix socket beside a ring: how a device is found by its Gid, how a ring is handed over, and
// the bytes that wake who sleeps.

#include "file_descriptor.hpp"
#include "wire.hpp"

#include <optional>

namespace rungs::verbs::soft {

// A non-blocking socket at which a device of this Gid is found, in the abstract name space: no
// file, and gone with its owner. Empty: errno says why.
FileDescriptor listen_as(const Gid& gid, int backlog);
// A connection to the device of this Gid. Empty: errno says why (ECONNREFUSED: no such device).
FileDescriptor connect_to(const Gid& gid);
// The next connection that waits; empty: none. Other users' are closed: the abstract name space has
// no permissions.
FileDescriptor accept_own(const FileDescriptor& listener);

// What a sender says first: who it is, with its ring.
struct Hello {
  Gid from{};
  FileDescriptor ring;
};
bool send_hello(const FileDescriptor& socket, const Gid& from, const FileDescriptor& ring);
enum class Heard { kNothing, kSomething, kEnd };
// kSomething: `hello` is set. kEnd: what came is none.
Heard take_hello(const FileDescriptor& socket, Hello& hello);

// Wakes who polls the other end. A full socket has bytes that wake it as well.
void ring_bell(const FileDescriptor& socket);
// Takes what is there. kEnd: the other end is closed.
Heard take_bells(const FileDescriptor& socket);

}  // namespace rungs::verbs::soft
