#pragma once
/// @file link_memory.hpp
/// Every rank's slots and counters, as addresses that this rank's kernels can use.

#include <rungs/bootstrap/group.hpp>
#include <rungs/gpu/buffer.hpp>
#include <rungs/gpu/peer.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace rungs::collectives::detail {

/// Owns this rank's memory and the way to the others'. In one process it is shared: whoever is
/// destroyed last frees it, so a peer's late write of a counter never meets freed memory. Between
/// processes it is exported and mapped.
class LinkMemory {
 public:
  /// Allocates and zeroes this rank's memory. Not collective.
  LinkMemory(const gpu::Device& device, std::size_t size_bytes, gpu::StreamHandle stream);
  LinkMemory(const LinkMemory&) = delete;
  LinkMemory& operator=(const LinkMemory&) = delete;

  /// Collective. Maps the peers' memory.
  /// @param ordinals each rank's device in its process
  /// @return empty, or why a peer's memory cannot be reached from here (not thrown, so that all
  ///         ranks can be told)
  /// @throws Error when the ranks could not exchange what they had to: the group is then aborted
  std::string connect(bootstrap::Group& group, const std::vector<int>& ordinals);
  /// Rank `rank`'s memory.
  [[nodiscard]] std::byte* of(int rank) const { return bases_[static_cast<std::size_t>(rank)]; }
  /// For a communicator that failed: a peer in another process may still write to this rank's
  /// memory, which therefore stays for the process's life.
  void keep_for_late_writers() noexcept;

 private:
  using Memory = std::shared_ptr<gpu::Buffer<std::byte>>;
  std::string reach(const gpu::Device& peer, int rank) const;

  gpu::Device device_;
  Memory own_;
  std::vector<Memory> peers_in_process_;
  std::vector<gpu::PeerMapping> mappings_;
  std::vector<std::byte*> bases_;
  bool has_other_processes_ = false;
};

}  // namespace rungs::collectives::detail
