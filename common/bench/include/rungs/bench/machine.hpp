#pragma once
/// @file machine.hpp
/// What results were measured on, and the roofs that rates are held against.

#include <rungs/gpu/device.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace rungs::bench {

struct MachineFacts {
  std::string cpu;
  int cores = 0;                       ///< that this process may use
  std::size_t memory_bytes = 0;        ///< of the host
  std::optional<gpu::DeviceInfo> gpu;  ///< device 0; empty when none answers
  std::string no_gpu_reason;           ///< why not
};

/// Asks the operating system and the GPU back end; measures nothing.
MachineFacts machine_facts();

/// One line a fact, for people: "CPU   AMD EPYC 9B14, 2 cores, 16.0 GB".
std::vector<std::string> describe(const MachineFacts& facts);

/// Bytes read plus bytes written a second by memcpy of memory far larger than the caches, best of
/// five. One core.
double measure_host_copy();
/// The same by a device-to-device copy: the roof of kernels that only move data. On the emulator:
/// the host's.
double measure_device_copy(const gpu::Device& device);

}  // namespace rungs::bench
