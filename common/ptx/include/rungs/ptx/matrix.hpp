#pragma once
/// @file matrix.hpp
/// ldmatrix and stmatrix: 8x8 matrices of 16-bit elements between shared memory and the registers
/// of a warp, laid out as mma.sync takes them (PTX ISA, "Warp Level Matrix Load/Store
/// Instructions").
///
/// A row is 16 bytes, 16-byte aligned; rows may lie anywhere. Lane 8 i + r passes the address of
/// row r of matrix i, so `Count` matrices need the addresses of lanes 0 to 8 Count - 1; the others'
/// are not looked at. Register i of lane l holds two neighbours of matrix i, the first in the lower
/// half:
///
///     plain       row l / 4, columns 2 (l % 4) and 2 (l % 4) + 1
///     transposed  rows 2 (l % 4) and 2 (l % 4) + 1, column l / 4
///
/// Plain, four matrices make the 16x16 fragment of A, in the order (0, 0), (8, 0), (0, 8), (8, 8)
/// of row and column; a B that is stored [n][k] loads plain, one stored [k][n] transposed.
///
/// Executed by the whole warp, aligned. Weak accesses of the generic proxy: they wait for no one,
/// so rows that other lanes have written need syncwarp(), other warps' a barrier.

#include <rungs/ptx/descriptor.hpp>

#if !RUNGS_GPU_CUDA
#include <rungs/emulator/model_warp.hpp>
#endif

namespace rungs::ptx {

/// Loads `Count` (1, 2 or 4) matrices. PTX: ldmatrix.sync.aligned.m8n8.x{1,2,4}.shared.b16.
template <int Count>
RUNGS_DEVICE void ldmatrix(std::uint32_t (&d)[Count], const void* row RUNGS_AND_WHERE) {
  static_assert(Count == 1 || Count == 2 || Count == 4);
#if RUNGS_GPU_CUDA
  const std::uint32_t address = shared_u32(row);
  if constexpr (Count == 1) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                 : "=r"(d[0])
                 : "r"(address)
                 : "memory");
  } else if constexpr (Count == 2) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(d[0]), "=r"(d[1])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(address)
                 : "memory");
  }
#else
  emulator::model::ldmatrix(d, Count, false, row, where);
#endif
}

/// The same, transposed. PTX: ldmatrix.sync.aligned.m8n8.x{1,2,4}.trans.shared.b16.
template <int Count>
RUNGS_DEVICE void ldmatrix_trans(std::uint32_t (&d)[Count], const void* row RUNGS_AND_WHERE) {
  static_assert(Count == 1 || Count == 2 || Count == 4);
#if RUNGS_GPU_CUDA
  const std::uint32_t address = shared_u32(row);
  if constexpr (Count == 1) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
                 : "=r"(d[0])
                 : "r"(address)
                 : "memory");
  } else if constexpr (Count == 2) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(d[0]), "=r"(d[1])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(address)
                 : "memory");
  }
#else
  emulator::model::ldmatrix(d, Count, true, row, where);
#endif
}

/// Stores `Count` (1, 2 or 4) matrices, the mirror image of ldmatrix(). Needs sm_90. PTX:
/// stmatrix.sync.aligned.m8n8.x{1,2,4}.shared.b16.
template <int Count>
RUNGS_DEVICE void stmatrix(void* row, const std::uint32_t (&values)[Count] RUNGS_AND_WHERE) {
  static_assert(Count == 1 || Count == 2 || Count == 4);
#if RUNGS_GPU_CUDA
  const std::uint32_t address = shared_u32(row);
  if constexpr (Count == 1) {
    asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(address),
                 "r"(values[0])
                 : "memory");
  } else if constexpr (Count == 2) {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(address),
                 "r"(values[0]), "r"(values[1])
                 : "memory");
  } else {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
                 "r"(values[0]), "r"(values[1]), "r"(values[2]), "r"(values[3])
                 : "memory");
  }
#else
  emulator::model::stmatrix(row, values, Count, false, where);
#endif
}

/// The same, transposed. Needs sm_90. PTX: stmatrix.sync.aligned.m8n8.x{1,2,4}.trans.shared.b16.
template <int Count>
RUNGS_DEVICE void stmatrix_trans(void* row, const std::uint32_t (&values)[Count] RUNGS_AND_WHERE) {
  static_assert(Count == 1 || Count == 2 || Count == 4);
#if RUNGS_GPU_CUDA
  const std::uint32_t address = shared_u32(row);
  if constexpr (Count == 1) {
    asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};" ::"r"(address),
                 "r"(values[0])
                 : "memory");
  } else if constexpr (Count == 2) {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(address),
                 "r"(values[0]), "r"(values[1])
                 : "memory");
  } else {
    asm volatile(
        "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
        "r"(values[0]), "r"(values[1]), "r"(values[2]), "r"(values[3])
        : "memory");
  }
#else
  emulator::model::stmatrix(row, values, Count, true, where);
#endif
}

}  // namespace rungs::ptx
