#include "detail/staging.hpp"

#include "detail/slot_fifo.hpp"

namespace rungs::transport::detail {

std::byte* PinnedRing::take() {
  const std::size_t stride = slot_stride(slot_bytes_);
  if (!copies_) {
    buffers_ = gpu::Buffer<std::byte>(device_, kSlots * stride, gpu::Space::kHostMapped);
    copies_.emplace(device_);
  }
  if (taken_ - given_back_ >= kSlots) return nullptr;
  return buffers_.data() + taken_++ % kSlots * stride;
}

bool StagedOutlet::put(const Piece& piece, const Source& source) {
  hand_on();
  if (!source.on_device) {
    if (!waiting_.empty() || !inner_->put(piece, source)) return false;  // pieces keep their order
    staged_.push_back(false);
    return true;
  }
  std::byte* const buffer = ring_.take();
  if (buffer == nullptr) return false;
  ring_.copies().begin(buffer, source.data, piece.size_bytes, source.after);
  waiting_.push_back({piece, buffer, false});
  staged_.push_back(true);
  hand_on();
  return true;
}

void StagedOutlet::hand_on() {
  while (!waiting_.empty()) {
    Waiting& oldest = waiting_.front();
    if (!oldest.copied && !ring_.copies().oldest_done()) return;
    oldest.copied = true;
    if (!inner_->put(oldest.piece, {oldest.buffer, false, ring_.region(), nullptr})) return;
    waiting_.pop_front();
  }
}

bool StagedOutlet::settled(Settlement& out) {
  hand_on();
  if (!inner_->settled(out)) return false;
  if (staged_.front()) ring_.give_back();
  staged_.pop_front();
  return true;
}

void StagedOutlet::cancel(std::uint64_t message) {
  ring_.finish();
  inner_->cancel(message);
}

void StagedOutlet::stop() noexcept {
  inner_->stop();
  ring_.finish();
}

bool StagedInlet::offer(const Window& window) {
  if (!window.on_device) {
    if (!inner_->offer(window)) return false;
    offered_.push_back({window, nullptr});
    return true;
  }
  if (spare_ == nullptr) spare_ = ring_.take();
  if (spare_ == nullptr) return false;
  Window staged = window;
  staged.data = spare_;
  staged.on_device = false;
  staged.region = ring_.region();
  staged.after = nullptr;
  if (!inner_->offer(staged)) return false;
  offered_.push_back({window, spare_});
  spare_ = nullptr;
  return true;
}

bool StagedInlet::filled(Piece& out, bool& refused) {
  Landed landed{};
  while (inner_->filled(landed.piece, landed.refused)) {
    const Offered& offered = offered_.front();
    landed.staged = offered.buffer != nullptr;
    landed.copying = landed.staged && !landed.refused;
    if (landed.copying) {
      ring_.copies().begin(offered.window.data, offered.buffer, landed.piece.size_bytes,
                           offered.window.after);
    }
    offered_.pop_front();
    landed_.push_back(landed);
  }
  if (landed_.empty()) return false;
  const Landed& oldest = landed_.front();
  if (oldest.copying && !ring_.copies().oldest_done()) return false;
  if (oldest.staged) ring_.give_back();
  out = oldest.piece;
  refused = oldest.refused;
  landed_.pop_front();
  return true;
}

void StagedInlet::stop() noexcept {
  inner_->stop();
  ring_.finish();
}

}  // namespace rungs::transport::detail
