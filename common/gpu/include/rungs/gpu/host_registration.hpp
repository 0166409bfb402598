#pragma once
/// @file host_registration.hpp
/// Host memory that somebody else allocated, made reachable for kernels: the rings and doorbells of
/// an HCA, for example.

#include <rungs/gpu/device.hpp>

#include <cstddef>
#include <utility>

namespace rungs::gpu {

/// Pins a range of host memory and maps it for kernels, as long as this object lives. In emulation
/// kernels reach all host memory; the range is checked and remembered only.
/// @note kernels and the host may share flags in it, by ptx::ld_acquire_sys() and the like; atomic
///       read-modify-writes of both sides on one word are not atomic to each other over PCIe
class HostRegistration {
 public:
  /// What pointer and size must be multiples of: a page that two ranges share could be pinned for
  /// one of them only.
  static constexpr std::size_t kPageBytes = 4096;

  HostRegistration() = default;
  /// @throws Error kInvalidArgument for a null or unaligned pointer, a size of 0 or no whole pages,
  ///         memory that overlaps a registered range, or inside a capture; kCuda if CUDA refuses
  HostRegistration(const Device& device, void* pointer, std::size_t size_bytes);
  ~HostRegistration() { reset(); }
  HostRegistration(HostRegistration&& other) noexcept { swap(other); }
  HostRegistration& operator=(HostRegistration&& other) noexcept {
    if (this != &other) {
      reset();
      swap(other);
    }
    return *this;
  }
  HostRegistration(const HostRegistration&) = delete;
  HostRegistration& operator=(const HostRegistration&) = delete;

  /// Ends it. No kernel may use the memory any more; it stays the owner's.
  void reset() noexcept;
  [[nodiscard]] void* host() const noexcept { return host_; }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return size_bytes_; }
  /// How kernels name `host`, an address in the range. (The same, where the GPU has the host's
  /// address space for registered memory, too.)
  template <class T>
  [[nodiscard]] T* on_device(T* host) const noexcept {
    return reinterpret_cast<T*>(device_ + (reinterpret_cast<std::byte*>(host) - host_));
  }

 private:
  void swap(HostRegistration& other) noexcept {
    std::swap(host_, other.host_);
    std::swap(device_, other.device_);
    std::swap(size_bytes_, other.size_bytes_);
  }
  std::byte* host_ = nullptr;
  std::byte* device_ = nullptr;  // null: nothing is registered
  std::size_t size_bytes_ = 0;
};

}  // namespace rungs::gpu
