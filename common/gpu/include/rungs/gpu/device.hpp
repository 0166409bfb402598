#pragma once
/// @file device.hpp
/// The GPU, real or emulated. Which of the two is fixed when rungs is built (rungs/config.hpp);
/// code above this folder does not ask.

#include <rungs/config.hpp>
#include <rungs/core/deadline.hpp>

#include <cstddef>
#include <string>

struct
    CUstream_st;  // CUDA's stream object: a caller's cudaStream_t passes as it is, in both builds
struct CUevent_st;

namespace rungs::gpu {

/// A stream as CUDA spells it. Null is the current device's default stream.
using StreamHandle = CUstream_st*;

/// Extents of a grid, a block or a cluster.
struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
  [[nodiscard]] unsigned long long count() const noexcept { return 1ull * x * y * z; }
};

/// What a kernel's author sizes grids and tiles by.
struct DeviceInfo {
  std::string name;  ///< "NVIDIA H200", or "emulated Hopper SM x4"
  int ordinal = 0;
  bool emulated = false;
  int sm_count = 0;       ///< emulated: RUNGS_EMULATED_SMS, 4 by default
  int compute_major = 0;  ///< 9 for Hopper
  int compute_minor = 0;
  std::size_t memory_bytes =
      0;  ///< emulated: RUNGS_EMULATED_MEMORY_MIB, half of the host's by default
  std::size_t l2_bytes = 0;
  std::size_t shared_bytes_per_block = 0;  ///< with opt-in: 232448 on Hopper
};

/// A handle to one device; copies name the same device.
class Device {
 public:
  /// Devices in this process; emulated: RUNGS_EMULATED_DEVICES, 8 by default. CUDA: 0, without
  /// throwing, where there is no driver or no GPU.
  static int count();
  /// @throws Error kInvalidArgument if there is no such device; kCuda if it does not answer
  static Device open(int ordinal);
  /// The device that null streams of this thread belong to.
  static Device current();

  [[nodiscard]] int ordinal() const noexcept { return ordinal_; }
  [[nodiscard]] const DeviceInfo& info() const;
  /// Makes this the calling thread's current device.
  void make_current() const;
  /// Waits for everything submitted to the device. CUDA: the deadline holds for rungs' own streams.
  /// @throws Error kCuda with the first failed kernel's report, and from then on at every call on
  ///         the device, as CUDA's sticky errors; kTimeout; kInvalidArgument inside a capture
  void synchronize(const Deadline& deadline = Deadline::standard()) const;
  /// Whether kernels on this device may use pointers into `other`'s memory.
  [[nodiscard]] bool can_access_peer(const Device& other) const;
  /// Allows that (idempotent). @throws Error kUnsupported if it cannot
  void enable_peer_access(const Device& other) const;

 private:
  explicit Device(int ordinal) : ordinal_(ordinal) {}
  int ordinal_;
};

namespace detail {
/// Forgets the emulated device's sticky error, so that a test can go on after a kernel failed. On
/// CUDA a failed kernel ends the process's context, and this does nothing.
void reset_error_for_tests(const Device& device);
}  // namespace detail

}  // namespace rungs::gpu
