#include "detail/slot_fifo.hpp"

#include <rungs/core/error.hpp>

namespace rungs::transport::detail {

bool SlotOutlet::put(const Piece& piece, const Source& source) {
  publish();
  if (begun_ - settled_ >= memory_.slots) return false;
  // A settled slot was drained: its credit came back through head.
  memory_.control->slots[begun_ % memory_.slots].piece = piece;
  memory_.copies->begin(memory_.slot(begun_), source.data, piece.size_bytes, source.after);
  ++begun_;
  publish();
  return true;
}

void SlotOutlet::publish() {
  while (published_ < begun_ && memory_.copies->oldest_done()) {
    ++published_;
    memory_.control->tail.store(published_, std::memory_order_release);
  }
}

bool SlotOutlet::settled(Settlement& out) {
  publish();
  // closed is read before head: what the receiver drained before it closed still counts.
  const bool closed = memory_.control->closed[1].load(std::memory_order_acquire) != 0;
  if (memory_.control->head.load(std::memory_order_acquire) == settled_) {
    if (closed && begun_ > settled_) RUNGS_THROW(kPeerLost, "the peer closed the link");
    return false;
  }
  const SlotControl::Slot& slot = memory_.control->slots[settled_ % memory_.slots];
  out = {slot.refused != 0, slot.capacity_bytes};
  ++settled_;
  return true;
}

void SlotOutlet::close() noexcept {
  memory_.control->closed[0].store(1, std::memory_order_release);
}

bool SlotInlet::offer(const Window& window) {
  windows_.push_back(window);
  return true;
}

bool SlotInlet::begin_next() {
  if (windows_.empty()) return false;
  const bool closed = memory_.control->closed[0].load(std::memory_order_acquire) != 0;
  if (memory_.control->tail.load(std::memory_order_acquire) == begun_) {
    if (closed && draining_.empty()) RUNGS_THROW(kPeerLost, "the peer closed the link");
    return false;
  }
  const Window& window = windows_.front();
  Draining next{memory_.control->slots[begun_ % memory_.slots].piece, Fate::kTaken,
                window.capacity_bytes};
  if (next.piece.message < window.message) {
    next.fate = Fate::kStale;  // what was under way when its message was refused
  } else {
    check_piece(next.piece, window);
    if (next.piece.total_bytes > window.capacity_bytes) next.fate = Fate::kRefused;
    const std::size_t size = next.fate == Fate::kTaken ? next.piece.size_bytes : 0;
    memory_.copies->begin(window.data, memory_.slot(begun_), size, window.after);
    windows_.pop_front();
  }
  draining_.push_back(next);
  ++begun_;
  return true;
}

void SlotInlet::release(const Draining& drained) {
  SlotControl::Slot& slot = memory_.control->slots[released_ % memory_.slots];
  slot.refused = drained.fate == Fate::kRefused ? 1 : 0;
  slot.capacity_bytes = drained.capacity_bytes;
  ++released_;
  memory_.control->head.store(released_, std::memory_order_release);
}

bool SlotInlet::filled(Piece& out, bool& refused) {
  for (;;) {
    // A copying thread drains one slot and gives its credit back; a copy engine gets all there are.
    while ((draining_.empty() || memory_.copies->asynchronous()) && begin_next()) continue;
    if (draining_.empty()) return false;
    const Draining oldest = draining_.front();
    if (oldest.fate != Fate::kStale && !memory_.copies->oldest_done()) return false;
    release(oldest);
    draining_.pop_front();
    if (oldest.fate == Fate::kStale) continue;
    out = oldest.piece;
    refused = oldest.fate == Fate::kRefused;
    return true;
  }
}

void SlotInlet::close() noexcept { memory_.control->closed[1].store(1, std::memory_order_release); }

}  // namespace rungs::transport::detail
