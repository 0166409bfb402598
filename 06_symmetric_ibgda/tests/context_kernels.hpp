#pragma once
/// @file context_kernels.hpp
/// One block that makes the device calls that a script names.

#include <rungs/gpu/device.hpp>
#include <rungs/symmetric/context_args.hpp>

#include <cstddef>
#include <cstdint>

namespace rungs::symmetric {

enum class Call : std::int32_t {
  kPut,
  kPutSignal,
  kSet,
  kAdd,
  kGet,
  kWait,
  kQuiet,
  kBarrier,
  kFill,  ///< no call: byte i of `other` becomes value + i, by another thread than puts it
};

/// `mine` and `signal` as in put_device.hpp; `other` is `from` or `to`.
struct Step {
  Call call = Call::kPut;
  std::int32_t peer = 0;
  void* mine = nullptr;
  void* other = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t* signal = nullptr;
  std::uint64_t value = 0;
  std::uint64_t late_ns = 0;  ///< by which all threads but the first come late
};

/// @param steps [count] device, or host-mapped
/// @param gave_up the same: counts calls that returned false
void launch_script(const DeviceContext* context, const Step* steps, int count,
                   std::uint32_t* gave_up, gpu::StreamHandle stream);

}  // namespace rungs::symmetric
