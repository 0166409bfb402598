#pragma once
/// @file slot_fifo.hpp
/// The ring of slots with credits that shared memory and GPU peer memory have in common: two
/// counters, each written by one side only, and slots that are reused without a lock.
///
///     sender                                receiver
///       wait until tail - head < slots        wait until tail > head
///       fill slot tail % slots                drain slot head % slots
///       store-release tail + 1  ───────>      load-acquire tail
///       load-acquire head       <───────      store-release head + 1
///
///     field      writer      reader      meaning
///     tail       sender      receiver    pieces filled since the link was made
///     head       receiver    sender      pieces drained
///     piece      sender      receiver    what the slot holds; published by tail
///     refused    receiver    sender      the piece was dropped; published by head
///     closed[2]  each end    the other   the link was destroyed there (0 sender, 1 receiver)
///
/// Nobody resets the counters: 64 bits do not run out.

#include "detail/carrier.hpp"
#include "detail/copies.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

namespace rungs::transport::detail {

/// Lies in memory that both ranks map. Zero bytes are a fresh one.
struct SlotControl {
  struct alignas(64) Slot {
    Piece piece;
    std::uint64_t refused;
    std::uint64_t capacity_bytes;
  };
  alignas(64) std::atomic<std::uint64_t> tail;
  alignas(64) std::atomic<std::uint64_t> head;
  alignas(64) std::array<std::atomic<std::uint32_t>, 2> closed;
  std::array<Slot, kSlots> slots;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// Bytes from one slot to the next.
constexpr std::size_t slot_stride(std::size_t slot_bytes) { return (slot_bytes + 63) / 64 * 64; }

/// What both ends have: the control block, where the slots' bytes lie, and how to copy them.
struct SlotMemory {
  SlotControl* control = nullptr;
  std::byte* payload = nullptr;
  std::size_t stride_bytes = 0;
  unsigned slots = kSlots;
  std::shared_ptr<void> keep_control;  ///< mappings and buffers that must outlive the end
  std::shared_ptr<void> keep_payload;
  std::unique_ptr<Copies> copies;  // last: its copies end before the memory goes

  [[nodiscard]] std::byte* slot(std::uint64_t index) const {
    return payload + index % slots * stride_bytes;
  }
};

class SlotOutlet final : public Outlet {
 public:
  explicit SlotOutlet(SlotMemory memory) : memory_(std::move(memory)) {}
  bool put(const Piece& piece, const Source& source) override;
  bool settled(Settlement& out) override;
  void cancel(std::uint64_t) override { memory_.copies->finish(); }
  void stop() noexcept override { memory_.copies->finish(); }
  void close() noexcept override;

 private:
  void publish();

  SlotMemory memory_;
  std::uint64_t begun_ = 0;      // copies begun
  std::uint64_t published_ = 0;  // what tail says
  std::uint64_t settled_ = 0;
};

class SlotInlet final : public Inlet {
 public:
  explicit SlotInlet(SlotMemory memory) : memory_(std::move(memory)) {}
  bool offer(const Window& window) override;
  bool filled(Piece& out, bool& refused) override;
  void stop() noexcept override { memory_.copies->finish(); }
  void close() noexcept override;

 private:
  enum class Fate { kTaken, kRefused, kStale };
  struct Draining {
    Piece piece;
    Fate fate;
    std::uint64_t capacity_bytes;
  };
  bool begin_next();
  void release(const Draining& drained);

  SlotMemory memory_;
  std::deque<Window> windows_;     // not yet met by a piece
  std::deque<Draining> draining_;  // copies under way, oldest first
  std::uint64_t begun_ = 0;
  std::uint64_t released_ = 0;  // what head says
};

}  // namespace rungs::transport::detail
