#pragma once
// FNV-1a, 64 bits: a checksum against accident, not against malice. @see Fowler, Noll, Vo (RFC
// 9923)

#include <cstddef>
#include <cstdint>

namespace rungs::training {

inline constexpr std::uint64_t kFnvBasis = 0xcbf29ce484222325u;

/// Continues from `hash`, so that a file can be summed in pieces.
inline std::uint64_t fnv1a64(const void* data, std::size_t size_bytes,
                             std::uint64_t hash = kFnvBasis) {
  const auto* bytes = static_cast<const std::uint8_t*>(data);
  for (std::size_t i = 0; i < size_bytes; ++i) hash = (hash ^ bytes[i]) * 0x100000001b3u;
  return hash;
}

}  // namespace rungs::training
