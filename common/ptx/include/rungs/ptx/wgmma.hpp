#pragma once
/// @file wgmma.hpp
/// Asynchronous warpgroup matrix multiplication, Hopper only (PTX ISA, "Asynchronous Warpgroup
/// Level Matrix Instructions"). D[64, N] += A[64, K] B[K, N]; B in shared memory, A there or in
/// registers, D in registers. wgmma_types.hpp has the table of types, K and N.
///
/// A warpgroup is four consecutive warps, the first's number a multiple of four. Thread t of it
/// (warp w = t / 32, lane l = t % 32) holds N / 2 elements of D: for j < N / 8
///
///     d[4j], d[4j + 1]       row 16 w + l / 4,      columns 8 j + 2 (l % 4), + 1
///     d[4j + 2], d[4j + 3]   row 16 w + l / 4 + 8,  the same columns
///
/// f16 accumulators are packed in pairs in that order: register i is d[2i] (low half), d[2i + 1].
/// A in registers is a[4], for every type 4 bytes of a row of 32 (K = 32 / the element's size):
///
///     a[0], a[1]   rows 16 w + l / 4 and + 8, bytes  4 (l % 4) ... + 3
///     a[2], a[3]   the same rows,             bytes 16 + 4 (l % 4) ... + 3
///
/// Protocol: wgmma_fence(), multiplications, wgmma_commit(), wgmma_wait<Pending>(d). Between a
/// multiplication and the wait that covers it the accumulators must not be touched, and A in
/// registers and the operands in shared memory must not be changed.
///
/// Exactness. Products are exact; integers are added exactly and wrap around (satfinite: one clamp
/// a multiplication). The ISA leaves the order and precision of floating sums open. Measured by
/// others (MMA-Sim, arXiv 2511.10909): the K products and the accumulator are cut off 25 bits below
/// the greatest exponent (FP8: 13) and added exactly; an f32 result is cut to 24 significant bits
/// (FP8: 14), an f16 one rounded to nearest. The emulator does just this for FP8, where it shows;
/// else it adds in order of k in f32, within (K + 2) 2^-22 of the summands' magnitudes of it.

#include <rungs/ptx/descriptor.hpp>
#include <rungs/ptx/wgmma_protocol.hpp>
#include <rungs/ptx/wgmma_types.hpp>

#if RUNGS_GPU_CUDA
#include <rungs/ptx/wgmma_asm.hpp>
#else
#include <rungs/emulator/model_wgmma.hpp>
#endif

namespace rungs::ptx {

#if !RUNGS_GPU_CUDA
namespace detail {

template <class T>
constexpr emulator::WgmmaType wgmma_type() {
  using emulator::WgmmaType;
  return std::is_same_v<T, float>          ? WgmmaType::kF32
         : std::is_same_v<T, f16>          ? WgmmaType::kF16
         : std::is_same_v<T, std::int32_t> ? WgmmaType::kS32
         : std::is_same_v<T, bf16>         ? WgmmaType::kBf16
         : std::is_same_v<T, tf32>         ? WgmmaType::kTf32
         : std::is_same_v<T, f8e4m3>       ? WgmmaType::kE4m3
         : std::is_same_v<T, f8e5m2>       ? WgmmaType::kE5m2
         : std::is_same_v<T, std::int8_t>  ? WgmmaType::kS8
                                           : WgmmaType::kU8;
}

template <int N, class D, class A, class B, WgmmaModifiers M, bool AInRegisters>
constexpr emulator::WgmmaInstruction kWgmmaInstruction = {
    .n = N,
    .d = wgmma_type<D>(),
    .a = wgmma_type<A>(),
    .b = wgmma_type<B>(),
    .transpose_a = (M & kWgmmaTransposeA) != 0,
    .transpose_b = (M & kWgmmaTransposeB) != 0,
    .negative = ((M & kWgmmaNegateA) != 0) != ((M & kWgmmaNegateB) != 0),
    .satfinite = (M & kWgmmaSatfinite) != 0,
    .a_in_registers = AInRegisters};

}  // namespace detail
#endif

/// Starts D = A B + (accumulate ? D : 0). All threads of the warpgroup, aligned, with the same
/// arguments. PTX: wgmma.mma_async.sync.aligned.m64nNkK.D.A.B.
/// @tparam N,D,A,B a row of the table in wgmma_types.hpp
/// @tparam M transposition, signs, saturation
/// @param d registers of D: float[N / 2], std::int32_t[N / 2], or std::uint32_t[N / 4] for f16
/// @param desc_a,desc_b from wgmma_descriptor()
template <int N, class D, class A, class B = A, WgmmaModifiers M = 0>
RUNGS_DEVICE void wgmma(WgmmaRegister<D> (&d)[kWgmmaRegisters<N, D>], std::uint64_t desc_a,
                        std::uint64_t desc_b, bool accumulate RUNGS_AND_WHERE) {
  static_assert(detail::wgmma_exists<N, D, A, B, M>());
#if RUNGS_GPU_CUDA
  using Shape = detail::WgmmaChars<detail::WgmmaShape<N, D, A, B, M>>;
  using Immediates = detail::WgmmaChars<detail::WgmmaImmediates<A, M, false>>;
  detail::WgmmaAsm<std::is_same_v<D, float>,
                   kWgmmaRegisters<N, D>>::template from_shared<Shape, Immediates>(d, desc_a,
                                                                                   desc_b,
                                                                                   accumulate);
#else
  emulator::model::wgmma(detail::kWgmmaInstruction<N, D, A, B, M, false>, d, desc_a, nullptr,
                         desc_b, accumulate, where);
#endif
}

/// The same with A in registers. They are read until the wait that covers the multiplication:
/// keep `a` unchanged and in scope until then.
/// @param a the thread's fragment of A, as above
template <int N, class D, class A, class B = A, WgmmaModifiers M = 0>
RUNGS_DEVICE void wgmma(WgmmaRegister<D> (&d)[kWgmmaRegisters<N, D>], const std::uint32_t (&a)[4],
                        std::uint64_t desc_b, bool accumulate RUNGS_AND_WHERE) {
  static_assert(detail::wgmma_exists<N, D, A, B, M>());
  static_assert((M & kWgmmaTransposeA) == 0, "registers cannot be transposed");
#if RUNGS_GPU_CUDA
  using Shape = detail::WgmmaChars<detail::WgmmaShape<N, D, A, B, M>>;
  using Immediates = detail::WgmmaChars<detail::WgmmaImmediates<A, M, true>>;
  detail::WgmmaAsm<std::is_same_v<D, float>,
                   kWgmmaRegisters<N, D>>::template from_registers<Shape, Immediates>(d, a, desc_b,
                                                                                      accumulate);
#else
  emulator::model::wgmma(detail::kWgmmaInstruction<N, D, A, B, M, true>, d, 0, a, desc_b,
                         accumulate, where);
#endif
}

/// wgmma() for bf16 operands in shared memory and f32 accumulators.
/// @tparam TransA,TransB true: the operand's contiguous dimension is M (or N) instead of K
template <int N, bool TransA = false, bool TransB = false>
RUNGS_DEVICE void wgmma_bf16(float (&d)[N / 2], std::uint64_t desc_a, std::uint64_t desc_b,
                             bool accumulate RUNGS_AND_WHERE) {
  constexpr WgmmaModifiers kModifiers =
      (TransA ? kWgmmaTransposeA : 0) | (TransB ? kWgmmaTransposeB : 0);
  wgmma<N, float, bf16, bf16, kModifiers>(d, desc_a, desc_b, accumulate RUNGS_PASS_WHERE);
}

}  // namespace rungs::ptx
