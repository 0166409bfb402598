#pragma once
/// @file settings.hpp
/// The environment variables of the emulated GPU, read when a device is first used.

#include <rungs/config.hpp>

#include <cstddef>

namespace rungs::gpu::detail {

inline constexpr int kMaxDevices = 64;

/// RUNGS_EMULATED_DEVICES, 8 by default.
int emulated_devices();
/// RUNGS_EMULATED_SMS, 4 by default.
int emulated_sms();
/// RUNGS_EMULATED_MEMORY_MIB in bytes; by default half of the host's memory, a GiB at least.
std::size_t emulated_memory_bytes();
/// Threads that run a device's blocks. RUNGS_EMULATOR_WORKERS; by default every core this process
/// may use, or one when RUNGS_LOCAL_RANKS or LOCAL_WORLD_SIZE says that several ranks share them.
int emulator_workers();

}  // namespace rungs::gpu::detail
