#pragma once
/// @file sha256.hpp
/// SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104): what the handshake proves the secret with.

#include <rungs/config.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace rungs::bootstrap::detail {

using Digest = std::array<std::byte, 32>;

/// A running hash.
class Sha256 {
 public:
  Sha256& update(std::span<const std::byte> bytes);
  Sha256& update(std::string_view text) { return update(std::as_bytes(std::span(text))); }
  /// Pads and returns the hash; the object is used up.
  Digest finish();

 private:
  void block(const std::byte* bytes);

  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> pending_{};
  std::uint64_t size_bytes_ = 0;
};

Digest hmac(std::span<const std::byte> key, std::span<const std::byte> message);

/// Takes the same time wherever the first difference lies.
bool equal_in_constant_time(const Digest& a, const Digest& b) noexcept;

}  // namespace rungs::bootstrap::detail
