#pragma once
/// @file bulk_reduce.hpp
/// The arithmetic of cp.reduce.async.bulk.

#include <rungs/gpu/tensor_map.hpp>

#include <cstddef>
#include <cstdint>

namespace rungs::emulator {

/// "add" and "u32".
const char* name_of(gpu::BulkReduction reduction);
const char* name_of(gpu::TensorElement element);

/// Whether the ISA has the combination, for a destination in global or in shared memory.
bool reduction_exists(gpu::BulkReduction reduction, gpu::TensorElement element, bool global);

/// destination[i] = destination[i] op source[i], each element atomically. f32 sums flush subnormal
/// operands and results to zero, as the ISA says of the hardware; f16 and bf16 keep them.
void reduce_elements(std::byte* destination, const std::byte* source, std::size_t size_bytes,
                     gpu::BulkReduction reduction, gpu::TensorElement element);

}  // namespace rungs::emulator
