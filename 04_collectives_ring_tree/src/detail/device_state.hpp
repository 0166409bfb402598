#pragma once
/// @file device_state.hpp
/// A communicator's memory on the device.

#include <rungs/bootstrap/group.hpp>
#include <rungs/collectives/kernel_args.hpp>
#include <rungs/collectives/peer_memory.hpp>
#include <rungs/collectives/watch.hpp>
#include <rungs/gpu/buffer.hpp>

#include "detail/layout.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace rungs::collectives::detail {

/// Slots, counters, and the structs of kernel_args.hpp that point to them.
class DeviceState {
 public:
  /// Allocates everything. Not collective.
  DeviceState(const gpu::Device& device, const Layout& layout, gpu::StreamHandle stream);

  [[nodiscard]] PeerMemory& links() { return links_; }
  /// Writes the structs, once the links are connected.
  void publish(int rank, const std::vector<std::vector<int>>& rings, Control& control,
               std::uint64_t timeout_ns, gpu::StreamHandle stream);
  [[nodiscard]] const DeviceCommunicator* communicator() const { return communicator_.data(); }
  /// [peer]: slots filled for it since the beginning, on all channels. Waits for the device's copy.
  [[nodiscard]] std::vector<std::uint64_t> slots_sent() const;
  /// Waits until peers in other processes have taken all that was sent to them: then they will not
  /// write to this rank's memory any more. False if `over` became true or time ran out.
  bool sent_was_taken(const bootstrap::Group& group, const Deadline& deadline,
                      const std::function<bool()>& over);

 private:
  [[nodiscard]] std::size_t index(int channel, int peer) const {
    return static_cast<std::size_t>(channel) * static_cast<std::size_t>(layout_.ranks()) +
           static_cast<std::size_t>(peer);
  }

  Layout layout_;
  PeerMemory links_;
  gpu::Device device_;
  gpu::Buffer<std::uint64_t> steps_;  // [2: send, recv][channels][size], a cache line each
  gpu::Buffer<LinkSide> sides_;       // [2: send, recv][channels][size]
  gpu::Buffer<int> rings_;            // [channels][size]
  gpu::Buffer<int> places_;           // [channels]
  gpu::Buffer<std::byte> scratch_;    // [channels][slot bytes of Simple]
  gpu::Buffer<std::uint32_t> claim_;
  gpu::Buffer<DeviceCommunicator> communicator_;
};

}  // namespace rungs::collectives::detail
