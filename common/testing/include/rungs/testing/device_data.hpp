#pragma once
/// @file device_data.hpp
/// Test data to and from device 0, and the rounding units that bounds are derived from.

#include <rungs/core/dtype.hpp>
#include <rungs/gpu/buffer.hpp>
#include <rungs/gpu/device.hpp>
#include <rungs/gpu/queue.hpp>
#include <rungs/testing/poison.hpp>

#include <vector>

namespace rungs::testing {

inline gpu::Device device() { return gpu::Device::open(0); }
/// The default stream of device 0.
inline gpu::Queue queue() { return {.stream = nullptr, .sm_count = device().info().sm_count}; }

template <class T>
gpu::Buffer<T> on_device(const std::vector<T>& values) {
  gpu::Buffer<T> buffer(device(), values.size());
  buffer.upload(values);
  return buffer;
}

/// An output nobody has written yet: NaN, or -1.
template <class T>
gpu::Buffer<T> poisoned(std::size_t count) {
  gpu::Buffer<T> buffer(device(), count);
  poison(buffer);
  return buffer;
}

/// What device memory that another object owns holds, after all work of the default stream.
template <class T>
std::vector<T> from_device(const T* data, std::size_t count) {
  std::vector<T> values(count);
  gpu::copy_async(values.data(), data, count * sizeof(T), nullptr);
  gpu::synchronize(nullptr);
  return values;
}

inline std::vector<double> widen(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}
inline std::vector<double> widen(const std::vector<bf16>& values) {
  std::vector<double> result;
  for (const bf16 value : values) result.push_back(static_cast<double>(to_float(value)));
  return result;
}

/// Half a unit in the last of bf16's 8 significant bits, relative: the largest error of one
/// rounding.
inline constexpr double kBf16Rounding = 1.0 / 256;
/// The same of fp32.
inline constexpr double kF32Rounding = 1.0 / (1 << 24);

}  // namespace rungs::testing
