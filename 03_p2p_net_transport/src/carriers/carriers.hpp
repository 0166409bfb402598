#pragma once
/// @file carriers.hpp
/// The four carriers: each builds both ends of a link, in turns with the peer.

#include "detail/carrier.hpp"
#include "detail/handshake.hpp"

namespace rungs::transport::detail {

Ends connect_shared_memory(SetUp& set_up);
Ends connect_socket(SetUp& set_up);
Ends connect_verbs(SetUp& set_up);
Ends connect_gpu_peer(SetUp& set_up);

}  // namespace rungs::transport::detail
