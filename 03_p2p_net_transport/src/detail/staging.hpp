#pragma once
/// @file staging.hpp
/// Device memory over a carrier that knows host memory only: pieces pass through pinned buffers,
/// and the copy of one piece overlaps the carrying of another.

#include "detail/carrier.hpp"
#include "detail/copies.hpp"

#include <rungs/gpu/buffer.hpp>

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>

namespace rungs::transport::detail {

/// A ring of pinned buffers, one a slot, made at the first use.
class PinnedRing {
 public:
  PinnedRing(const gpu::Device& device, std::size_t slot_bytes)
      : device_(device),
        slot_bytes_(slot_bytes) {}
  /// The next buffer, or null if all are taken.
  std::byte* take();
  /// Gives the oldest back.
  void give_back() { ++given_back_; }
  [[nodiscard]] Region region() const { return {buffers_.data(), buffers_.size_bytes()}; }
  Copies& copies() { return *copies_; }
  void finish() noexcept {
    if (copies_) copies_->finish();
  }

 private:
  gpu::Device device_;
  std::size_t slot_bytes_;
  gpu::Buffer<std::byte> buffers_;
  std::optional<StreamCopies> copies_;  // after buffers_: waits for its copies first
  std::size_t taken_ = 0;
  std::size_t given_back_ = 0;
};

class StagedOutlet final : public Outlet {
 public:
  StagedOutlet(std::unique_ptr<Outlet> inner, const gpu::Device& device, std::size_t slot_bytes)
      : ring_(device, slot_bytes),
        inner_(std::move(inner)) {}
  bool put(const Piece& piece, const Source& source) override;
  bool settled(Settlement& out) override;
  void cancel(std::uint64_t message) override;
  void stop() noexcept override;
  void close() noexcept override { inner_->close(); }

 private:
  struct Waiting {
    Piece piece;
    std::byte* buffer;
    bool copied;
  };
  void hand_on();

  PinnedRing ring_;  // before inner_, which may use its buffers until it is gone
  std::unique_ptr<Outlet> inner_;
  std::deque<Waiting> waiting_;  // staged, not yet the inner carrier's
  std::deque<bool> staged_;      // for each piece not settled: whether it has a buffer
};

class StagedInlet final : public Inlet {
 public:
  StagedInlet(std::unique_ptr<Inlet> inner, const gpu::Device& device, std::size_t slot_bytes)
      : ring_(device, slot_bytes),
        inner_(std::move(inner)) {}
  bool offer(const Window& window) override;
  bool filled(Piece& out, bool& refused) override;
  void stop() noexcept override;
  void close() noexcept override { inner_->close(); }

 private:
  struct Offered {
    Window window;
    std::byte* buffer;  // null: the window is host memory
  };
  struct Landed {
    Piece piece;
    bool refused;
    bool staged;
    bool copying;
  };

  PinnedRing ring_;  // before inner_, which may use its buffers until it is gone
  std::unique_ptr<Inlet> inner_;
  std::byte* spare_ = nullptr;  // taken for a window that the inner carrier had no room for
  std::deque<Offered> offered_;
  std::deque<Landed> landed_;
};

}  // namespace rungs::transport::detail
