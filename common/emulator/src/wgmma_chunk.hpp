#pragma once
/// @file wgmma_chunk.hpp
/// The 16 bytes that every operand access of wgmma reads, checked. For wgmma_operand*.cpp.

#include "block.hpp"
#include "sanitizer.hpp"

#include <cstring>

namespace rungs::emulator {

/// The 16 bytes at `offset` after all checks; false after reporting. The checks' common outcome is
/// decided here.
template <class Chunk>
inline bool load_chunk(Block& block, std::uint32_t offset, const char* operand, Location where,
                       Chunk* chunk) {
  static_assert(sizeof(Chunk) == SharedMemory::kGranule);
  SharedMemory& shared = block.shared;
  const std::byte* memory = shared.at(offset);
  const bool plain =
      offset >= SharedMemory::kBase &&
      offset + SharedMemory::kGranule <= SharedMemory::kBase + shared.dynamic_bytes() &&
      shared.landing(offset) == 0 && shared.view_is_current(offset) &&
      !sanitizer::thread_sanitizer();
  if (plain) {
    shared.seen_fence(offset) = shared.fence_count;
  } else {
    memory = engine_read(block, offset, operand, where);
    if (memory == nullptr) return false;
  }
  std::memcpy(chunk, memory, sizeof(*chunk));
  return true;
}

}  // namespace rungs::emulator
