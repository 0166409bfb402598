#pragma once
/// @file mbarrier.hpp
/// State of the mbarriers of a block. The eight bytes in shared memory hold a cookie and the index
/// here, so that an uninitialised or overwritten barrier is noticed.

#include <rungs/emulator/model.hpp>

#include "thread_set.hpp"

#include <cstdint>
#include <deque>

namespace rungs::emulator {

struct Block;

struct MBarrier {
  std::uint32_t index = 0;  // in the table
  std::uint32_t offset = 0;
  std::uint32_t count = 0;
  std::uint32_t pending = 0;
  std::uint32_t phase = 0;
  std::int64_t tx_bytes = 0;  // signed: copies may land before the phase expects them
  ThreadSet waiting;
  Location initialised_at;
  Location invalidated_at;
  bool valid = false;  // initialised and not invalidated
  char token = 0;
};

class MBarrierTable {
 public:
  void clear() { size_ = 0; }
  [[nodiscard]] std::uint32_t size() const { return size_; }
  MBarrier& operator[](std::uint32_t i) { return barriers_[i]; }
  /// The barrier initialised at `offset`, or null.
  MBarrier* find(std::uint32_t offset);
  MBarrier& add(std::uint32_t offset);

 private:
  std::uint32_t size_ = 0;
  std::deque<MBarrier> barriers_;  // elements keep their address: it is TSan's token
};

/// complete_tx of an asynchronous copy. False if the barrier is broken (reported).
bool mbarrier_complete_tx(Block& block, std::uint32_t offset, std::uint32_t size_bytes,
                          Location where);

}  // namespace rungs::emulator
