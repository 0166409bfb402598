#pragma once
/// @file id_content.hpp
/// What lies in the 128 bytes of a UniqueId.
///
///     0 magic   8 version   12 ranks   16 address (24)   40 key (32)   72 zeros   124 checksum

#include "bootstrap/address.hpp"
#include "bootstrap/handshake.hpp"

#include <rungs/bootstrap/unique_id.hpp>

#include <string>

namespace rungs::bootstrap::detail {

struct IdContent {
  Address root;
  int ranks = 1;
  Key key{};
};

UniqueId encode(const IdContent& content);
/// @throws Error kInvalidArgument for another version, a wrong checksum, or bytes that are no id
IdContent decode(const UniqueId& id);
/// The key that a secret of any length stands for.
Key key_of(const std::string& secret);

}  // namespace rungs::bootstrap::detail
