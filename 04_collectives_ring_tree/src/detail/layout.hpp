#pragma once
/// @file layout.hpp
/// Where slots and counters lie in the memory that a rank shows its peers.

#include <rungs/collectives/kernel_args.hpp>

#include <array>
#include <cstddef>

namespace rungs::collectives::detail {

/// Offsets in bytes. A rank's memory holds, for each channel and each peer, the slots of all
/// protocols; behind all slots, each in a cache line of its own, the tails (written by who sends to
/// this rank) and the heads (written by who receives from it).
class Layout {
 public:
  using SlotBytes = std::array<std::size_t, kMaxProtocols>;

  Layout(int ranks, int channels, const SlotBytes& slot_bytes)
      : ranks_(static_cast<std::size_t>(ranks)),
        channels_(static_cast<std::size_t>(channels)),
        slot_bytes_(slot_bytes) {
    for (std::size_t i = 0; i < slot_bytes.size(); ++i) {
      first_[i] = link_bytes_;
      link_bytes_ += (kSlots * slot_bytes[i] + kLine - 1) / kLine * kLine;
    }
  }

  [[nodiscard]] std::size_t total_bytes() const { return heads() + lines() * kLine; }
  /// First slot for what `owner` receives from `peer`.
  [[nodiscard]] std::size_t slots(int owner, int channel, int peer, int protocol) const {
    return line(owner, channel, peer) * link_bytes_ + first_[static_cast<std::size_t>(protocol)];
  }
  [[nodiscard]] std::size_t tail(int owner, int channel, int peer) const {
    return lines() * link_bytes_ + line(owner, channel, peer) * kLine;
  }
  /// Credit for what `owner` sends to `peer`.
  [[nodiscard]] std::size_t head(int owner, int channel, int peer) const {
    return heads() + line(owner, channel, peer) * kLine;
  }
  [[nodiscard]] const SlotBytes& slot_bytes() const { return slot_bytes_; }
  [[nodiscard]] int ranks() const { return static_cast<int>(ranks_); }
  [[nodiscard]] int channels() const { return static_cast<int>(channels_); }

 private:
  static constexpr std::size_t kLine = 128;
  [[nodiscard]] std::size_t lines() const { return channels_ * (ranks_ - 1); }
  [[nodiscard]] std::size_t heads() const { return lines() * (link_bytes_ + kLine); }
  [[nodiscard]] std::size_t line(int owner, int channel, int peer) const {
    return static_cast<std::size_t>(channel) * (ranks_ - 1) +
           static_cast<std::size_t>(peer < owner ? peer : peer - 1);
  }

  std::size_t ranks_;
  std::size_t channels_;
  SlotBytes slot_bytes_;
  std::array<std::size_t, kMaxProtocols> first_{};
  std::size_t link_bytes_ = 0;
};

}  // namespace rungs::collectives::detail
