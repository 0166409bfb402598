#pragma once
/// @file multicast.hpp
/// Multicast objects of emulated devices: a range of addresses behind each of which lies one place
/// in the memory of every device. The range itself cannot be read or written; multimem instructions
/// (rungs/ptx/multimem.hpp) look it up.

#include <rungs/emulator/model.hpp>

#include <cstddef>

namespace rungs::emulator {

constexpr int kMostMulticastDevices = 16;

/// Reserves addresses for `size_bytes` and `devices` places. @throws Error kSystem
void* create_multicast(std::size_t size_bytes, int devices);
/// Place `index` is at `memory` from now on.
void bind_multicast(void* range, int index, void* memory);
/// No kernel uses it any more.
void destroy_multicast(void* range);

namespace model {

/// The same place in the memory of each device.
struct MulticastTarget {
  void* places[kMostMulticastDevices];
  int count;
};
/// Reports an address outside every multicast object, past its end or misaligned, and an object to
/// which not all devices have bound memory.
MulticastTarget multicast_target(const void* address, std::uint32_t size_bytes,
                                 const char* instruction, Location where);

}  // namespace model
}  // namespace rungs::emulator
