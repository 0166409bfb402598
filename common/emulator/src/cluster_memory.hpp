#pragma once
/// @file cluster_memory.hpp
/// Shared memory of the cluster's blocks, by shared::cluster address: who may touch it and when.

#include <rungs/emulator/model.hpp>

#include <cstddef>
#include <cstdint>

namespace rungs::emulator {

struct Block;

/// The block that a shared::cluster address lies in. Reports a rank outside the cluster, and a
/// block other than `self` that has not started or has ended: its shared memory may not be touched.
/// Null after reporting from an asynchronous operation.
Block* remote_block(Block& self, std::uint32_t address, const char* instruction, Location where);

/// The memory behind a shared::cluster address, checked; null as remote_block().
std::byte* remote_memory(Block& self, std::uint32_t address, std::uint32_t size_bytes,
                         const char* instruction, Location where);

}  // namespace rungs::emulator
