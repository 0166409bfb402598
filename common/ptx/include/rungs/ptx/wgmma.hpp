#pragma once
/// @file wgmma.hpp
/// Asynchronous warpgroup matrix multiplication, Hopper only (PTX ISA, "Asynchronous Warpgroup
/// Level Matrix Instructions"). D[64, N] += A[64, 16] B[16, N], bf16 in shared memory, f32 in
/// registers.
///
/// A warpgroup is four consecutive warps, the first's number a multiple of four. Thread t of it
/// (warp w = t / 32, lane l = t % 32) holds D in d[N / 2]: for j < N / 8
///
///     d[4j], d[4j + 1]       row 16 w + l / 4,      columns 8 j + 2 (l % 4), + 1
///     d[4j + 2], d[4j + 3]   row 16 w + l / 4 + 8,  the same columns
///
/// Protocol: wgmma_fence(), multiplications, wgmma_commit(), wgmma_wait<Pending>(d). Between a
/// multiplication and the wait that covers it the accumulators must not be touched and the operands
/// not be overwritten.

#include <rungs/ptx/descriptor.hpp>

namespace rungs::ptx {

/// Orders the warpgroup's accesses to accumulator registers before the multiplications that follow.
/// Needed before the first multiplication and whenever registers were touched since. All threads of
/// the warpgroup, aligned. PTX: wgmma.fence.sync.aligned.
RUNGS_DEVICE void wgmma_fence(RUNGS_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#else
  emulator::model::wgmma_fence(where);
#endif
}

/// Closes a group of all multiplications since the last commit. All threads of the warpgroup,
/// aligned. PTX: wgmma.commit_group.sync.aligned.
RUNGS_DEVICE void wgmma_commit(RUNGS_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#else
  emulator::model::wgmma_commit(where);
#endif
}

/// Waits until at most the `Pending` youngest groups are unfinished. `accumulators` (float arrays)
/// are those read afterwards: naming them keeps the compiler from reading them earlier. All threads
/// of the warpgroup, aligned. PTX: wgmma.wait_group.sync.aligned.
#if RUNGS_GPU_CUDA
template <int Pending, int R>
RUNGS_DEVICE void wgmma_wait(float (&accumulators)[R]) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
#pragma unroll
  for (int i = 0; i < R; i++) asm volatile("" : "+f"(accumulators[i])::"memory");
}
#else
template <int Pending, int R>
void wgmma_wait(float (&)[R] RUNGS_AND_WHERE) {
  emulator::model::wgmma_wait(Pending, where);
}
#endif

#if RUNGS_GPU_CUDA
namespace detail {
// The registers of the accumulator, eight at a time: their names in the PTX text and as asm
// operands.
#define RUNGS_PTX_NAMES_0 "%0, %1, %2, %3, %4, %5, %6, %7"
#define RUNGS_PTX_NAMES_1 "%8, %9, %10, %11, %12, %13, %14, %15"
#define RUNGS_PTX_NAMES_2 "%16, %17, %18, %19, %20, %21, %22, %23"
#define RUNGS_PTX_NAMES_3 "%24, %25, %26, %27, %28, %29, %30, %31"
#define RUNGS_PTX_NAMES_4 "%32, %33, %34, %35, %36, %37, %38, %39"
#define RUNGS_PTX_NAMES_5 "%40, %41, %42, %43, %44, %45, %46, %47"
#define RUNGS_PTX_NAMES_6 "%48, %49, %50, %51, %52, %53, %54, %55"
#define RUNGS_PTX_NAMES_7 "%56, %57, %58, %59, %60, %61, %62, %63"
#define RUNGS_PTX_NAMES_8 "%64, %65, %66, %67, %68, %69, %70, %71"
#define RUNGS_PTX_NAMES_9 "%72, %73, %74, %75, %76, %77, %78, %79"
#define RUNGS_PTX_NAMES_10 "%80, %81, %82, %83, %84, %85, %86, %87"
#define RUNGS_PTX_NAMES_11 "%88, %89, %90, %91, %92, %93, %94, %95"
#define RUNGS_PTX_NAMES_12 "%96, %97, %98, %99, %100, %101, %102, %103"
#define RUNGS_PTX_NAMES_13 "%104, %105, %106, %107, %108, %109, %110, %111"
#define RUNGS_PTX_NAMES_14 "%112, %113, %114, %115, %116, %117, %118, %119"
#define RUNGS_PTX_NAMES_15 "%120, %121, %122, %123, %124, %125, %126, %127"
#define RUNGS_PTX_REGISTERS(i)                                                                \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define RUNGS_PTX_NAMES_X2 RUNGS_PTX_NAMES_0 ", " RUNGS_PTX_NAMES_1
#define RUNGS_PTX_REGISTERS_X2 RUNGS_PTX_REGISTERS(0), RUNGS_PTX_REGISTERS(8)
#define RUNGS_PTX_NAMES_X4 \
  RUNGS_PTX_NAMES_0 ", " RUNGS_PTX_NAMES_1 ", " RUNGS_PTX_NAMES_2 ", " RUNGS_PTX_NAMES_3
#define RUNGS_PTX_REGISTERS_X4 \
  RUNGS_PTX_REGISTERS(0), RUNGS_PTX_REGISTERS(8), RUNGS_PTX_REGISTERS(16), RUNGS_PTX_REGISTERS(24)
#define RUNGS_PTX_NAMES_X6                                                               \
  RUNGS_PTX_NAMES_0 ", " RUNGS_PTX_NAMES_1 ", " RUNGS_PTX_NAMES_2 ", " RUNGS_PTX_NAMES_3 \
                    ", " RUNGS_PTX_NAMES_4 ", " RUNGS_PTX_NAMES_5
#define RUNGS_PTX_REGISTERS_X6                                             \
  RUNGS_PTX_REGISTERS(0), RUNGS_PTX_REGISTERS(8), RUNGS_PTX_REGISTERS(16), \
      RUNGS_PTX_REGISTERS(24), RUNGS_PTX_REGISTERS(32), RUNGS_PTX_REGISTERS(40)
#define RUNGS_PTX_NAMES_X8                                                               \
  RUNGS_PTX_NAMES_0 ", " RUNGS_PTX_NAMES_1 ", " RUNGS_PTX_NAMES_2 ", " RUNGS_PTX_NAMES_3 \
                    ", " RUNGS_PTX_NAMES_4 ", " RUNGS_PTX_NAMES_5 ", " RUNGS_PTX_NAMES_6 \
                    ", " RUNGS_PTX_NAMES_7
#define RUNGS_PTX_REGISTERS_X8                                                   \
  RUNGS_PTX_REGISTERS(0), RUNGS_PTX_REGISTERS(8), RUNGS_PTX_REGISTERS(16),       \
      RUNGS_PTX_REGISTERS(24), RUNGS_PTX_REGISTERS(32), RUNGS_PTX_REGISTERS(40), \
      RUNGS_PTX_REGISTERS(48), RUNGS_PTX_REGISTERS(56)
#define RUNGS_PTX_NAMES_X12                                                              \
  RUNGS_PTX_NAMES_0 ", " RUNGS_PTX_NAMES_1 ", " RUNGS_PTX_NAMES_2 ", " RUNGS_PTX_NAMES_3 \
                    ", " RUNGS_PTX_NAMES_4 ", " RUNGS_PTX_NAMES_5 ", " RUNGS_PTX_NAMES_6 \
                    ", " RUNGS_PTX_NAMES_7 ", " RUNGS_PTX_NAMES_8 ", " RUNGS_PTX_NAMES_9 \
                    ", " RUNGS_PTX_NAMES_10 ", " RUNGS_PTX_NAMES_11
#define RUNGS_PTX_REGISTERS_X12                                                  \
  RUNGS_PTX_REGISTERS(0), RUNGS_PTX_REGISTERS(8), RUNGS_PTX_REGISTERS(16),       \
      RUNGS_PTX_REGISTERS(24), RUNGS_PTX_REGISTERS(32), RUNGS_PTX_REGISTERS(40), \
      RUNGS_PTX_REGISTERS(48), RUNGS_PTX_REGISTERS(56), RUNGS_PTX_REGISTERS(64), \
      RUNGS_PTX_REGISTERS(72), RUNGS_PTX_REGISTERS(80), RUNGS_PTX_REGISTERS(88)
#define RUNGS_PTX_NAMES_X16                                                                 \
  RUNGS_PTX_NAMES_0 ", " RUNGS_PTX_NAMES_1 ", " RUNGS_PTX_NAMES_2 ", " RUNGS_PTX_NAMES_3    \
                    ", " RUNGS_PTX_NAMES_4 ", " RUNGS_PTX_NAMES_5 ", " RUNGS_PTX_NAMES_6    \
                    ", " RUNGS_PTX_NAMES_7 ", " RUNGS_PTX_NAMES_8 ", " RUNGS_PTX_NAMES_9    \
                    ", " RUNGS_PTX_NAMES_10 ", " RUNGS_PTX_NAMES_11 ", " RUNGS_PTX_NAMES_12 \
                    ", " RUNGS_PTX_NAMES_13 ", " RUNGS_PTX_NAMES_14 ", " RUNGS_PTX_NAMES_15
#define RUNGS_PTX_REGISTERS_X16                                                    \
  RUNGS_PTX_REGISTERS(0), RUNGS_PTX_REGISTERS(8), RUNGS_PTX_REGISTERS(16),         \
      RUNGS_PTX_REGISTERS(24), RUNGS_PTX_REGISTERS(32), RUNGS_PTX_REGISTERS(40),   \
      RUNGS_PTX_REGISTERS(48), RUNGS_PTX_REGISTERS(56), RUNGS_PTX_REGISTERS(64),   \
      RUNGS_PTX_REGISTERS(72), RUNGS_PTX_REGISTERS(80), RUNGS_PTX_REGISTERS(88),   \
      RUNGS_PTX_REGISTERS(96), RUNGS_PTX_REGISTERS(104), RUNGS_PTX_REGISTERS(112), \
      RUNGS_PTX_REGISTERS(120)

template <int N>
struct Wgmma;
// N, the text and the operands of its N / 2 registers, and the numbers of the five operands after
// them.
#define RUNGS_PTX_WGMMA(n, names, registers, desc_a, desc_b, scale, transpose_a, transpose_b)  \
  template <>                                                                                  \
  struct Wgmma<n> {                                                                            \
    template <bool TransA, bool TransB>                                                        \
    static RUNGS_DEVICE void run(float (&d)[n / 2], std::uint64_t a, std::uint64_t b,          \
                                 bool accumulate) {                                            \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #scale                                 \
                   ", 0;\nwgmma.mma_async.sync.aligned.m64n" #n "k16.f32.bf16.bf16 {" names    \
                   "}, %" #desc_a ", %" #desc_b ", p, 1, 1, %" #transpose_a ", %" #transpose_b \
                   ";\n}"                                                                      \
                   : registers                                                                 \
                   : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)), "n"(TransA ? 1 : 0),   \
                     "n"(TransB ? 1 : 0)                                                       \
                   : "memory");                                                                \
    }                                                                                          \
  }
RUNGS_PTX_WGMMA(32, RUNGS_PTX_NAMES_X2, RUNGS_PTX_REGISTERS_X2, 16, 17, 18, 19, 20);
RUNGS_PTX_WGMMA(64, RUNGS_PTX_NAMES_X4, RUNGS_PTX_REGISTERS_X4, 32, 33, 34, 35, 36);
RUNGS_PTX_WGMMA(96, RUNGS_PTX_NAMES_X6, RUNGS_PTX_REGISTERS_X6, 48, 49, 50, 51, 52);
RUNGS_PTX_WGMMA(128, RUNGS_PTX_NAMES_X8, RUNGS_PTX_REGISTERS_X8, 64, 65, 66, 67, 68);
RUNGS_PTX_WGMMA(192, RUNGS_PTX_NAMES_X12, RUNGS_PTX_REGISTERS_X12, 96, 97, 98, 99, 100);
RUNGS_PTX_WGMMA(256, RUNGS_PTX_NAMES_X16, RUNGS_PTX_REGISTERS_X16, 128, 129, 130, 131, 132);
#undef RUNGS_PTX_WGMMA
#undef RUNGS_PTX_REGISTERS
#undef RUNGS_PTX_NAMES_0
#undef RUNGS_PTX_NAMES_1
#undef RUNGS_PTX_NAMES_2
#undef RUNGS_PTX_NAMES_3
#undef RUNGS_PTX_NAMES_4
#undef RUNGS_PTX_NAMES_5
#undef RUNGS_PTX_NAMES_6
#undef RUNGS_PTX_NAMES_7
#undef RUNGS_PTX_NAMES_8
#undef RUNGS_PTX_NAMES_9
#undef RUNGS_PTX_NAMES_10
#undef RUNGS_PTX_NAMES_11
#undef RUNGS_PTX_NAMES_12
#undef RUNGS_PTX_NAMES_13
#undef RUNGS_PTX_NAMES_14
#undef RUNGS_PTX_NAMES_15
#undef RUNGS_PTX_NAMES_X2
#undef RUNGS_PTX_REGISTERS_X2
#undef RUNGS_PTX_NAMES_X4
#undef RUNGS_PTX_REGISTERS_X4
#undef RUNGS_PTX_NAMES_X6
#undef RUNGS_PTX_REGISTERS_X6
#undef RUNGS_PTX_NAMES_X8
#undef RUNGS_PTX_REGISTERS_X8
#undef RUNGS_PTX_NAMES_X12
#undef RUNGS_PTX_REGISTERS_X12
#undef RUNGS_PTX_NAMES_X16
#undef RUNGS_PTX_REGISTERS_X16
}  // namespace detail
#endif

/// Starts D = A B + (accumulate ? D : 0). All threads of the warpgroup, aligned, with the same
/// arguments. PTX: wgmma.mma_async.sync.aligned.m64nNk16.f32.bf16.bf16.
/// @tparam N 32, 64, 96, 128, 192 or 256
/// @tparam TransA,TransB true: the operand's contiguous dimension is M (or N) instead of K
/// @param desc_a,desc_b from wgmma_descriptor()
template <int N, bool TransA = false, bool TransB = false>
RUNGS_DEVICE void wgmma_bf16(float (&d)[N / 2], std::uint64_t desc_a, std::uint64_t desc_b,
                             bool accumulate RUNGS_AND_WHERE) {
  static_assert(N == 32 || N == 64 || N == 96 || N == 128 || N == 192 || N == 256);
#if RUNGS_GPU_CUDA
  detail::Wgmma<N>::template run<TransA, TransB>(d, desc_a, desc_b, accumulate);
#else
  emulator::model::wgmma_bf16(d, N, TransA, TransB, desc_a, desc_b, accumulate, where);
#endif
}

}  // namespace rungs::ptx
