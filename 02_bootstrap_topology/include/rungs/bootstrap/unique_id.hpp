#pragma once
/// @file unique_id.hpp
/// 128 opaque bytes that let ranks find each other and prove that they belong together.

#include <rungs/config.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace rungs::bootstrap {

/// Made by a Root; hand it to every rank by any means (a file, MPI, a thread's argument). Whoever
/// knows it may join: treat it as a password. Trivially copyable, the size of an ncclUniqueId.
struct UniqueId {
  std::array<std::uint8_t, 128> bytes{};
  bool operator==(const UniqueId&) const = default;
  /// 256 hexadecimal digits.
  [[nodiscard]] std::string to_hex() const;
  /// @throws Error kInvalidArgument for a wrong length, digit, version or checksum
  static UniqueId from_hex(std::string_view text);
};
static_assert(sizeof(UniqueId) == 128);

}  // namespace rungs::bootstrap
