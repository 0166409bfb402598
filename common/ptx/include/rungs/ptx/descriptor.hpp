#pragma once
/// @file descriptor.hpp
/// Shared-memory addresses and the matrix descriptors of wgmma. Plain arithmetic on both machines,
/// so a wrong field is wrong on both.

#include <rungs/gpu/tensor_map.hpp>
#include <rungs/ptx/where.hpp>

namespace rungs::ptx {

/// The 32-bit address, in the shared window, of an object in the block's shared memory.
/// Any thread. PTX: cvta.to.shared.
RUNGS_DEVICE std::uint32_t shared_u32(const void* pointer RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
#else
  return emulator::model::shared_address(pointer, where);
#endif
}

/// The 64-bit descriptor of a wgmma operand in shared memory ("Matrix Descriptor Format").
///
///     bits 0-13   address / 16
///     bits 16-29  leading byte offset / 16
///     bits 32-45  stride byte offset / 16
///     bits 49-51  base offset: 0, so a swizzled tile starts where the pattern repeats (every 1024,
///                 512 or 256 bytes)
///     bits 62-63  swizzle: 0 none, 1 128B, 2 64B, 3 32B
///
/// With T = 16 bytes of elements (8 of 16 bits) and S = swizzle span (32, 64, 128 bytes), before
/// swizzling; K-major is the same in bytes for every type, MN-major exists for 16 bits:
///
///     K-major,  none      8 rows of 16 bytes make a 128-byte core matrix;
///                         leading: to the next T of K, stride: to the next 8 rows
///     K-major,  swizzled  rows of S bytes; leading: ignored, stride: to the next 8 rows (8 S if
///                         dense). The next 2 T of K inside the span: add 32 to the address
///     MN-major, none      8 rows (K) of 16 bytes make a core matrix;
///                         leading: to the next 8 of K, stride: to the next 8 of M or N
///     MN-major, swizzled  rows (K) of S bytes; leading: to the next S / 2 elements of M or N,
///                         stride: to the next 8 of K (8 S if dense)
///
/// Address, leading and stride bytes are multiples of 16 below 256 KB: the fields hold no more. The
/// emulator refuses a descriptor that lost something.
/// @param shared_address from shared_u32(), 16-byte aligned
RUNGS_HD std::uint64_t wgmma_descriptor(std::uint32_t shared_address, std::uint32_t leading_bytes,
                                        std::uint32_t stride_bytes, gpu::Swizzle swizzle) {
  const std::uint64_t layout = swizzle == gpu::Swizzle::k128B  ? 1
                               : swizzle == gpu::Swizzle::k64B ? 2
                               : swizzle == gpu::Swizzle::k32B ? 3
                                                               : 0;
#if RUNGS_GPU_CUDA
  const std::uint64_t lost = 0;
#else
  const std::uint64_t lost = ((shared_address | leading_bytes | stride_bytes) & 15u) != 0 ||
                                     ((leading_bytes | stride_bytes) >> 18) != 0
                                 ? 1u << 14  // a reserved bit, which must be 0
                                 : 0;
#endif
  return lost | std::uint64_t{(shared_address & 0x3ffffu) >> 4} |
         std::uint64_t{(leading_bytes & 0x3ffffu) >> 4} << 16 |
         std::uint64_t{(stride_bytes & 0x3ffffu) >> 4} << 32 | layout << 62;
}

}  // namespace rungs::ptx
