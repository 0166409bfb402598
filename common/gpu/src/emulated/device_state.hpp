#pragma once
/// @file device_state.hpp
/// An emulated device: its executor, memory, streams and sticky error.

#include "arena.hpp"

#include <rungs/emulator/executor.hpp>
#include <rungs/gpu/device.hpp>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace rungs::gpu::detail {

class StreamState;

/// Made when first asked for, never destroyed: kernels may be running when the process exits. A
/// fork()ed child gets devices of its own; its parent's have no workers there.
class DeviceState {
 public:
  /// @throws Error kInvalidArgument if there is no such device
  static DeviceState& get(int ordinal);
  /// The arena's owner; null for memory of no device of this process.
  static DeviceState* owner_of(const void* pointer);
  static DeviceState& current();
  static void make_current(int ordinal);

  explicit DeviceState(int ordinal);
  DeviceState(const DeviceState&) = delete;
  DeviceState& operator=(const DeviceState&) = delete;

  [[nodiscard]] const DeviceInfo& info() const { return info_; }
  [[nodiscard]] Arena& arena() { return arena_; }
  emulator::Executor& executor() { return executor_; }
  StreamState& default_stream() { return *default_stream_; }
  /// Whether the device was made in this process and not in the parent that forked it.
  [[nodiscard]] bool alive() const;

  std::shared_ptr<StreamState> add_stream();
  void forget_stream(StreamState* stream);
  void synchronize(const Deadline& deadline);

  /// Keeps the first report. From then on nothing runs on the device.
  void fail(const std::string& report) noexcept;
  [[nodiscard]] bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  /// For waits. @throws Error kCuda "<call> on device 0: <report>"
  void throw_if_failed(std::string_view call);
  /// For submissions: the same, but only after a wait has thrown. Where a failure shows then does
  /// not depend on how far the kernel had come when the host submitted more.
  void throw_if_reported(std::string_view call);
  void reset_error();

 private:
  DeviceInfo info_;
  Arena arena_;
  emulator::Executor executor_;
  std::atomic<bool> failed_ = false;
  mutable std::mutex mutex_;  // of what follows
  std::string report_;
  std::atomic<bool> reported_ = false;
  std::shared_ptr<StreamState> default_stream_;
  std::unordered_map<StreamState*, std::shared_ptr<StreamState>> streams_;
  unsigned long generation_;
};

}  // namespace rungs::gpu::detail
