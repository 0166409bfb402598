#pragma once
/// @file residency.hpp
/// How many blocks fit on the device at once.

#include <rungs/gpu/launch.hpp>

#include <cstdint>
#include <vector>

namespace rungs::emulator {

/// What one block takes of its SM.
struct Slot {
  int sm = -1;
  unsigned threads = 0;
  unsigned shared_bytes = 0;
};

/// The free room of every SM. Not thread-safe.
class Residency {
 public:
  static constexpr unsigned kThreadsPerSm = 2048;
  static constexpr unsigned kBlocksPerSm = 32;
  static constexpr unsigned kSharedPerSm = 228 * 1024;

  explicit Residency(int sm_count);
  /// Room for `count` blocks of the shape; all or nothing. Appends to `slots`.
  bool reserve(const gpu::LaunchConfig& config, std::uint64_t count, std::vector<Slot>* slots);
  void release(const std::vector<Slot>& slots);
  /// Blocks of the shape that fit on the empty device.
  [[nodiscard]] std::uint64_t capacity(const gpu::LaunchConfig& config) const;

 private:
  struct Free {
    unsigned threads = kThreadsPerSm;
    unsigned blocks = kBlocksPerSm;
    unsigned shared_bytes = kSharedPerSm;
  };
  std::vector<Free> sms_;
};

}  // namespace rungs::emulator
