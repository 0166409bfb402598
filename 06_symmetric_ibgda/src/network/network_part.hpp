#pragma once
/// @file network_part.hpp
/// A context's way to the peers it cannot map: a software HCA, a queue pair for each of them, and
/// who posts to it.

#include <rungs/bootstrap/group.hpp>
#include <rungs/core/deadline.hpp>
#include <rungs/gpu/buffer.hpp>
#include <rungs/gpu/device.hpp>
#include <rungs/symmetric/context.hpp>

#include "network/connection.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace rungs::symmetric::detail {

class GpuQueues;
class Proxy;

/// What one message may have; longer ones are split. Tests lower it.
inline constexpr std::uint64_t kMaxMessageBytes = std::uint64_t{1} << 30;
/// A peer that does not answer for so long, eight times in a row, is lost. Long, because in
/// emulation a rank's HCA shares processors with all ranks' kernels; that a rank died the group
/// tells sooner. Tests lower it. × RUNGS_TIMEOUT_SCALE
inline constexpr double kAckTimeoutSeconds = 0.5;

class NetworkPart {
 public:
  /// Collective: every rank of the group makes one, or none does. Opens the HCA, registers the
  /// heap, connects the queue pairs; when it returns all ranks may post.
  /// @param heap what an HCA reaches: host memory on a real GPU; outlives this
  /// @param peers over the network; j among i's if and only if i is among j's
  /// @throws Error kInvalidArgument for peers or heap sizes that do not match, or a queue depth
  ///         beyond the HCA's; kSystem, kTimeout, kPeerLost
  NetworkPart(bootstrap::Group& group, const gpu::Device& device, const ContextOptions& options,
              std::byte* heap, std::size_t heap_bytes, const std::vector<int>& peers,
              std::uint64_t max_message_bytes = kMaxMessageBytes,
              double ack_timeout_seconds = kAckTimeoutSeconds);
  /// Ends the proxy thread and the HCA. Does not wait for requests: see drain().
  ~NetworkPart();
  NetworkPart(const NetworkPart&) = delete;
  NetworkPart& operator=(const NetworkPart&) = delete;

  /// Sets `network` and `queues` or `proxy`; the other is null.
  void fill(DeviceContext& context) const noexcept;
  /// The first failed queue pair, in words that name the peer. One that failed because it refused a
  /// peer's request is named a second later: the peer says why. Any thread; cheap.
  [[nodiscard]] std::optional<NetworkFailure> failure();
  /// Once no kernel of this rank runs any more: waits until all its requests are completed, which
  /// is when its heap may be freed as far as this rank's own puts are concerned. When all ranks
  /// have returned from it (a barrier of the group), nobody writes to anybody's heap.
  /// @return false if `over` became true, a queue pair failed or time ran out
  bool drain(const Deadline& deadline, const std::function<bool()>& over);
  [[nodiscard]] verbs::WireCounters wire() const noexcept { return hca_.counters(); }

 private:
  void connect(bootstrap::Group& group, const ContextOptions& options, std::size_t heap_bytes,
               const std::vector<int>& peers);

  Network network_;
  double ack_timeout_seconds_;
  verbs::Device hca_;
  verbs::ProtectionDomain domain_;
  gpu::Buffer<std::uint64_t> scratch_memory_;  // host-mapped
  LocalMemory local_;
  std::vector<Connection> connections_;
  std::unique_ptr<GpuQueues> queues_;  // or proxy_
  std::unique_ptr<Proxy> proxy_;
  std::mutex refused_mutex_;
  std::optional<Deadline> peer_reports_by_;  // set when a refusal is first seen
};

}  // namespace rungs::symmetric::detail
