#pragma once
/// @file reduce_device.hpp
/// What is done to elements: the operators, and one loop that reads one or two operands and writes
/// one or two results with the widest accesses that their addresses allow. For kernel sources.
///
/// Sums and averages follow IEEE 754: a NaN or opposite infinities give NaN. i32 sums wrap around
/// modulo 2^32. bf16 is added in f32 and rounded to bf16 once an addition. The maximum of NaN and
/// anything is NaN (unlike fmaxf); of -0 and +0 it is either, the same on every rank.

#include <rungs/collectives/kernel_args.hpp>
#include <rungs/gpu/kernel.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace rungs::collectives {

namespace detail {

RUNGS_DEVICE float add(float a, float b) { return a + b; }
RUNGS_DEVICE bf16 add(bf16 a, bf16 b) { return to_bf16(to_float(a) + to_float(b)); }
RUNGS_DEVICE std::int32_t add(std::int32_t a, std::int32_t b) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
}

RUNGS_DEVICE float larger(float a, float b) { return a > b || a != a ? a : b; }
RUNGS_DEVICE bf16 larger(bf16 a, bf16 b) {
  const float x = to_float(a);
  return x > to_float(b) || x != x ? a : b;
}
RUNGS_DEVICE std::int32_t larger(std::int32_t a, std::int32_t b) { return a > b ? a : b; }

RUNGS_DEVICE float divide(float value, int by) { return value / static_cast<float>(by); }
RUNGS_DEVICE bf16 divide(bf16 value, int by) {
  return to_bf16(to_float(value) / static_cast<float>(by));
}
RUNGS_DEVICE std::int32_t divide(std::int32_t value, int by) { return value / by; }

}  // namespace detail

// An operator: apply(what has come along, mine), and finish() once, on the complete value.

struct Sum {
  static constexpr Op kOp = Op::kSum;
  template <class T>
  RUNGS_DEVICE static T apply(T a, T b) {
    return detail::add(a, b);
  }
  template <class T>
  RUNGS_DEVICE static T finish(T value, int /*ranks*/) {
    return value;
  }
};

struct Max {
  static constexpr Op kOp = Op::kMax;
  template <class T>
  RUNGS_DEVICE static T apply(T a, T b) {
    return detail::larger(a, b);
  }
  template <class T>
  RUNGS_DEVICE static T finish(T value, int /*ranks*/) {
    return value;
  }
};

/// The sum divided by the number of ranks: correctly rounded, i32 truncated toward zero.
struct Avg {
  static constexpr Op kOp = Op::kAvg;
  template <class T>
  RUNGS_DEVICE static T apply(T a, T b) {
    return detail::add(a, b);
  }
  template <class T>
  RUNGS_DEVICE static T finish(T value, int ranks) {
    return detail::divide(value, ranks);
  }
};

/// O without its finish: for a reduction that others will continue.
template <class O>
struct Partial : O {
  template <class T>
  RUNGS_DEVICE static T finish(T value, int /*ranks*/) {
    return value;
  }
};

namespace detail {

/// N elements that are loaded and stored as one.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T at[N];
};

template <class O, bool kFinish, int kSources, class T, int N>
RUNGS_DEVICE Pack<T, N> combined(const Pack<T, N> (&from)[kSources], int ranks) {
  Pack<T, N> result = from[0];
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if constexpr (kSources == 2) result.at[i] = O::apply(result.at[i], from[1].at[i]);
    if constexpr (kFinish) result.at[i] = O::finish(result.at[i], ranks);
  }
  return result;
}

/// The elements [0, count / N * N) in packs of N. On a GPU a thread has several loads in flight.
template <class O, bool kFinish, int N, int kTargets, int kSources, class T>
RUNGS_DEVICE void sweep(T* const (&to)[kTargets], const T* const (&from)[kSources],
                        std::size_t count, int ranks) {
  using P = Pack<T, N>;
  constexpr int kUnroll = RUNGS_GPU_CUDA ? 4 : 1;
  const std::size_t packs = count / N;
  const std::size_t stride = blockDim.x;
  std::size_t first = threadIdx.x;
  for (; first + (kUnroll - 1) * stride < packs; first += kUnroll * stride) {
    P in[kUnroll][kSources];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
#pragma unroll
      for (int s = 0; s < kSources; ++s)
        in[u][s] = reinterpret_cast<const P*>(from[s])[first + u * stride];
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const P out = combined<O, kFinish>(in[u], ranks);
#pragma unroll
      for (int t = 0; t < kTargets; ++t) reinterpret_cast<P*>(to[t])[first + u * stride] = out;
    }
  }
  for (; first < packs; first += stride) {
    P in[kSources];
#pragma unroll
    for (int s = 0; s < kSources; ++s) in[s] = reinterpret_cast<const P*>(from[s])[first];
    const P out = combined<O, kFinish>(in, ranks);
#pragma unroll
    for (int t = 0; t < kTargets; ++t) reinterpret_cast<P*>(to[t])[first] = out;
  }
}

template <int kTargets, int kSources, class T>
RUNGS_DEVICE std::uintptr_t joined_addresses(T* const (&to)[kTargets],
                                             const T* const (&from)[kSources]) {
  std::uintptr_t all = 0;
  for (T* const pointer : to) all |= reinterpret_cast<std::uintptr_t>(pointer);
  for (const T* const pointer : from) all |= reinterpret_cast<std::uintptr_t>(pointer);
  return all;
}

}  // namespace detail

/// to[..][i] = from[0][i], or O::apply(from[0][i], from[1][i]), then O::finish if kFinish, for i in
/// [0, count). A target may be a source; otherwise they do not overlap.
/// All threads of the block, together. Ordinary accesses: what a peer has written is visible only
/// behind an acquire and a barrier.
template <class O, bool kFinish, int kTargets, int kSources, class T>
RUNGS_DEVICE void combine(T* const (&to)[kTargets], const T* const (&from)[kSources],
                          std::size_t count, int ranks) {
  constexpr int kWide = 16 / static_cast<int>(sizeof(T));
  constexpr int kWord = sizeof(T) < 4 ? 4 / static_cast<int>(sizeof(T)) : 1;
  const std::uintptr_t addresses = detail::joined_addresses(to, from);
  std::size_t done = 0;
  if (addresses % 16 == 0) {
    detail::sweep<O, kFinish, kWide>(to, from, count, ranks);
    done = count / kWide * kWide;
  } else if (kWord > 1 && addresses % 4 == 0) {
    detail::sweep<O, kFinish, kWord>(to, from, count, ranks);
    done = count / kWord * kWord;
  }
  T* rest_to[kTargets];
  const T* rest_from[kSources];
#pragma unroll
  for (int t = 0; t < kTargets; ++t) rest_to[t] = to[t] + done;
#pragma unroll
  for (int s = 0; s < kSources; ++s) rest_from[s] = from[s] + done;
  detail::sweep<O, kFinish, 1>(rest_to, rest_from, count - done, ranks);
}

/// to[i] = from[i]. All threads of the block.
template <class T>
RUNGS_DEVICE void copy(T* to, const T* from, std::size_t count) {
  if (to == from) return;
  T* const targets[1] = {to};
  const T* const sources[1] = {from};
  combine<Sum, false>(targets, sources, count, 1);
}

}  // namespace rungs::collectives
