#pragma once
/// @file operation.hpp
/// The three things a stream or a graph node does: run a kernel, copy, fill.

#include "completion.hpp"

#include <rungs/emulator/executor.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <variant>

namespace rungs::gpu::detail {

class DeviceState;

struct KernelOperation {
  std::shared_ptr<const emulator::LaunchRequest> request;
};
struct CopyOperation {
  void* to;
  const void* from;
  std::size_t size_bytes;
};
struct FillOperation {
  void* to;
  int value;
  std::size_t size_bytes;
};

/// One operation on one device; runs any number of times.
class Operation {
 public:
  using What = std::variant<KernelOperation, CopyOperation, FillOperation>;
  Operation(DeviceState& device, What what) : device_(&device), what_(std::move(what)) {}

  /// Begins. True: it has ended already and `completion` will not be told. After a kernel of the
  /// device failed, nothing runs any more and this is true at once.
  /// @note the operation must live until it has ended
  [[nodiscard]] bool start(const Completion& completion) const;
  /// The same for a kernel that takes part in programmatic dependent launch.
  [[nodiscard]] bool start(const Completion& completion, emulator::Dependence dependence) const;
  /// Whether it is a kernel, and one that may start before the work ahead of it has ended.
  [[nodiscard]] bool is_kernel() const { return std::holds_alternative<KernelOperation>(what_); }
  [[nodiscard]] bool may_start_early() const;
  [[nodiscard]] std::string describe() const;
  [[nodiscard]] DeviceState& device() const { return *device_; }

 private:
  DeviceState* device_;
  What what_;
};

}  // namespace rungs::gpu::detail
