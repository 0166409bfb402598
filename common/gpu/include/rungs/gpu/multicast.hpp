#pragma once
/// @file multicast.hpp
/// Multicast objects: one range of addresses for the memory of several devices (NVLink SHARP). For
/// kernels that use rungs/ptx/multimem.hpp. Emulated only: in a CUDA build this header is empty.

#include <rungs/gpu/device.hpp>

#if !RUNGS_GPU_CUDA

#include <cstddef>
#include <vector>

namespace rungs::gpu {

/// A multicast object over devices of this process. Thread-safe after the last bind().
class Multicast {
 public:
  /// @param devices two to 16, all different
  /// @param size_bytes a multiple of 16
  /// @throws Error kInvalidArgument naming what is wrong; kSystem
  Multicast(std::vector<Device> devices, std::size_t size_bytes);
  ~Multicast();
  Multicast(const Multicast&) = delete;
  Multicast& operator=(const Multicast&) = delete;

  /// Puts `memory`, size() bytes in a Buffer in Space::kShared of `device`, behind the object. The
  /// buffer must outlive the object. Once a device, before the first kernel that uses it.
  /// @throws Error kInvalidArgument for another device's or other memory, too little of it, or a
  ///         device that is not the object's or has memory already
  void bind(const Device& device, void* memory);
  /// The first address: for multimem instructions on every one of the devices, for nothing else.
  [[nodiscard]] void* data() const noexcept { return range_; }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return size_bytes_; }

 private:
  std::vector<Device> devices_;
  std::vector<bool> bound_;
  std::size_t size_bytes_;
  void* range_ = nullptr;
};

}  // namespace rungs::gpu
#endif
