#pragma once
/// @file peer.hpp
/// Memory of another process's device: exported as a file descriptor, mapped by the peer. CUDA: VMM
/// allocation handles; emulated: memfd. The descriptor travels over a Unix socket (SCM_RIGHTS).

#include <rungs/gpu/device.hpp>

#include <cstddef>

namespace rungs::gpu {

/// What a peer needs to map an allocation. The exporter keeps the memory alive and closes `fd` when
/// sent.
struct ExportedMemory {
  int fd = -1;
  std::size_t size_bytes =
      0;  ///< from the start of the descriptor's memory to the allocation's end
  std::size_t offset_bytes = 0;  ///< of the exported pointer inside the descriptor's memory
};

/// Exports the allocation that `pointer` (from a Buffer in Space::kShared, or inside one) lies in.
/// @throws Error kInvalidArgument for any other memory
ExportedMemory export_memory(const Device& device, const void* pointer);

/// Maps exported memory into this process for use by `device`'s kernels.
class PeerMapping {
 public:
  /// Maps `memory`; the descriptor may be closed afterwards.
  /// @throws Error kInvalidArgument for a bad descriptor, size or offset; kSystem or kCuda if
  ///         mapping fails
  PeerMapping(const Device& device, const ExportedMemory& memory);
  ~PeerMapping();
  PeerMapping(PeerMapping&& other) noexcept;
  PeerMapping& operator=(PeerMapping&& other) noexcept;
  PeerMapping(const PeerMapping&) = delete;
  PeerMapping& operator=(const PeerMapping&) = delete;
  /// The peer's pointer, here.
  [[nodiscard]] void* data() const noexcept;

 private:
  void* base_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  std::size_t offset_bytes_ = 0;
  unsigned long long handle_ = 0;
};

}  // namespace rungs::gpu
