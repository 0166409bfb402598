#pragma once
/// @file warp.hpp
/// A warp's reductions, matches and shuffles in segments, and who is in it.
///
/// redux, match and shuffles: every lane of `mask`, with the same mask (.sync, not aligned); they
/// order no memory.

#include <rungs/ptx/sync.hpp>

#include <type_traits>

#if !RUNGS_GPU_CUDA
#include <rungs/emulator/model_warp.hpp>
#endif

namespace rungs::ptx {

/// The thread's place in its warp, 0 to 31. PTX: %laneid.
RUNGS_DEVICE std::uint32_t lane_id() {
#if RUNGS_GPU_CUDA
  std::uint32_t lane;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
#else
  return emulator::model::lane_id();
#endif
}

/// One bit for each lane below the thread's. PTX: %lanemask_lt.
RUNGS_DEVICE std::uint32_t lanemask_lt() {
#if RUNGS_GPU_CUDA
  std::uint32_t mask;
  asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(mask));
  return mask;
#else
  return (1u << lane_id()) - 1;
#endif
}
/// Below it and its own. PTX: %lanemask_le.
RUNGS_DEVICE std::uint32_t lanemask_le() {
#if RUNGS_GPU_CUDA
  std::uint32_t mask;
  asm volatile("mov.u32 %0, %%lanemask_le;" : "=r"(mask));
  return mask;
#else
  return (2u << lane_id()) - 1;
#endif
}
/// Its own. PTX: %lanemask_eq.
RUNGS_DEVICE std::uint32_t lanemask_eq() {
#if RUNGS_GPU_CUDA
  std::uint32_t mask;
  asm volatile("mov.u32 %0, %%lanemask_eq;" : "=r"(mask));
  return mask;
#else
  return 1u << lane_id();
#endif
}
/// Above it and its own. PTX: %lanemask_ge.
RUNGS_DEVICE std::uint32_t lanemask_ge() {
#if RUNGS_GPU_CUDA
  std::uint32_t mask;
  asm volatile("mov.u32 %0, %%lanemask_ge;" : "=r"(mask));
  return mask;
#else
  return ~((1u << lane_id()) - 1);
#endif
}
/// Above it. PTX: %lanemask_gt.
RUNGS_DEVICE std::uint32_t lanemask_gt() {
#if RUNGS_GPU_CUDA
  std::uint32_t mask;
  asm volatile("mov.u32 %0, %%lanemask_gt;" : "=r"(mask));
  return mask;
#else
  return ~((2u << lane_id()) - 1);
#endif
}

/// The lanes that execute this instruction together: some set that holds the caller and no lane
/// that has ended. Nothing else is promised, so it is no mask for a collective. PTX:
/// activemask.b32. The emulator returns all lanes that have not ended.
RUNGS_DEVICE std::uint32_t active_mask() {
#if RUNGS_GPU_CUDA
  return __activemask();
#else
  return emulator::model::active_mask();
#endif
}

/// The sum of the lanes' values, modulo 2^32. PTX: redux.sync.add.
template <class T>
RUNGS_DEVICE T redux_add(std::uint32_t mask, T value RUNGS_AND_WHERE) {
  static_assert(std::is_same_v<T, std::uint32_t> || std::is_same_v<T, std::int32_t>);
#if RUNGS_GPU_CUDA
  return __reduce_add_sync(mask, value);
#else
  return static_cast<T>(emulator::model::redux(emulator::model::Redux::kAdd, mask,
                                               static_cast<std::uint32_t>(value), where));
#endif
}

/// The smallest of the lanes' values. PTX: redux.sync.min.{u32,s32}.
template <class T>
RUNGS_DEVICE T redux_min(std::uint32_t mask, T value RUNGS_AND_WHERE) {
  static_assert(std::is_same_v<T, std::uint32_t> || std::is_same_v<T, std::int32_t>);
#if RUNGS_GPU_CUDA
  return __reduce_min_sync(mask, value);
#else
  using emulator::model::Redux;
  return static_cast<T>(emulator::model::redux(std::is_signed_v<T> ? Redux::kMinS : Redux::kMinU,
                                               mask, static_cast<std::uint32_t>(value), where));
#endif
}

/// The largest of the lanes' values. PTX: redux.sync.max.{u32,s32}.
template <class T>
RUNGS_DEVICE T redux_max(std::uint32_t mask, T value RUNGS_AND_WHERE) {
  static_assert(std::is_same_v<T, std::uint32_t> || std::is_same_v<T, std::int32_t>);
#if RUNGS_GPU_CUDA
  return __reduce_max_sync(mask, value);
#else
  using emulator::model::Redux;
  return static_cast<T>(emulator::model::redux(std::is_signed_v<T> ? Redux::kMaxS : Redux::kMaxU,
                                               mask, static_cast<std::uint32_t>(value), where));
#endif
}

/// The bits that are set in all lanes' values. PTX: redux.sync.and.b32.
RUNGS_DEVICE std::uint32_t redux_and(std::uint32_t mask, std::uint32_t value RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  return __reduce_and_sync(mask, value);
#else
  return emulator::model::redux(emulator::model::Redux::kAnd, mask, value, where);
#endif
}
/// The bits that are set in any lane's value. PTX: redux.sync.or.b32.
RUNGS_DEVICE std::uint32_t redux_or(std::uint32_t mask, std::uint32_t value RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  return __reduce_or_sync(mask, value);
#else
  return emulator::model::redux(emulator::model::Redux::kOr, mask, value, where);
#endif
}
/// The bits that are set in an odd number of lanes' values. PTX: redux.sync.xor.b32.
RUNGS_DEVICE std::uint32_t redux_xor(std::uint32_t mask, std::uint32_t value RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  return __reduce_xor_sync(mask, value);
#else
  return emulator::model::redux(emulator::model::Redux::kXor, mask, value, where);
#endif
}

/// The lanes of the mask whose value is the caller's. PTX: match.any.sync.{b32,b64}.
/// @tparam T std::uint32_t or std::uint64_t
template <class T>
RUNGS_DEVICE std::uint32_t match_any(std::uint32_t mask, T value RUNGS_AND_WHERE) {
  static_assert(std::is_same_v<T, std::uint32_t> || std::is_same_v<T, std::uint64_t>);
#if RUNGS_GPU_CUDA
  if constexpr (sizeof(T) == 8) {
    return __match_any_sync(mask, static_cast<unsigned long long>(value));
  } else {
    return __match_any_sync(mask, value);
  }
#else
  return emulator::model::match_any(mask, value, where);
#endif
}

/// The mask if all its lanes have the same value, else 0. PTX: match.all.sync.{b32,b64}.
/// @tparam T std::uint32_t or std::uint64_t
template <class T>
RUNGS_DEVICE std::uint32_t match_all(std::uint32_t mask, T value RUNGS_AND_WHERE) {
  static_assert(std::is_same_v<T, std::uint32_t> || std::is_same_v<T, std::uint64_t>);
#if RUNGS_GPU_CUDA
  int all_equal;
  if constexpr (sizeof(T) == 8) {
    return __match_all_sync(mask, static_cast<unsigned long long>(value), &all_equal);
  } else {
    return __match_all_sync(mask, value, &all_equal);
  }
#else
  return emulator::model::match_all(mask, value, where);
#endif
}

/// Shuffles among segments of `Width` (a power of two up to 32) lanes. `value` of lane `lane`
/// modulo Width of the own segment. PTX: shfl.sync.idx with a segment mask.
template <int Width, class T>
RUNGS_DEVICE T shfl_idx_segment(std::uint32_t mask, T value, int lane RUNGS_AND_WHERE) {
  static_assert(Width > 0 && Width <= 32 && (Width & (Width - 1)) == 0);
#if RUNGS_GPU_CUDA
  return __shfl_sync(mask, value, lane, Width);
#else
  const int own = static_cast<int>(lane_id());
  return shfl_idx(mask, value, (own & ~(Width - 1)) | (lane & (Width - 1)), where);
#endif
}
/// `value` of lane (own lane ^ `lane_mask`), or the own value if that is past the segment. PTX:
/// shfl.sync.bfly with a segment mask.
template <int Width, class T>
RUNGS_DEVICE T shfl_xor_segment(std::uint32_t mask, T value, int lane_mask RUNGS_AND_WHERE) {
  static_assert(Width > 0 && Width <= 32 && (Width & (Width - 1)) == 0);
#if RUNGS_GPU_CUDA
  return __shfl_xor_sync(mask, value, lane_mask, Width);
#else
  const int own = static_cast<int>(lane_id()), source = own ^ (lane_mask & 31);
  return shfl_idx(mask, value, source <= (own | (Width - 1)) ? source : own, where);
#endif
}
/// `value` of lane (own lane + `delta`), or the own value past the segment. PTX: shfl.sync.down
/// with a segment mask.
template <int Width, class T>
RUNGS_DEVICE T shfl_down_segment(std::uint32_t mask, T value, int delta RUNGS_AND_WHERE) {
  static_assert(Width > 0 && Width <= 32 && (Width & (Width - 1)) == 0);
#if RUNGS_GPU_CUDA
  return __shfl_down_sync(mask, value, static_cast<unsigned>(delta), Width);
#else
  const int own = static_cast<int>(lane_id()), source = own + (delta & 31);
  return shfl_idx(mask, value, source <= (own | (Width - 1)) ? source : own, where);
#endif
}
/// `value` of lane (own lane - `delta`), or the own value below the segment. PTX: shfl.sync.up with
/// a segment mask.
template <int Width, class T>
RUNGS_DEVICE T shfl_up_segment(std::uint32_t mask, T value, int delta RUNGS_AND_WHERE) {
  static_assert(Width > 0 && Width <= 32 && (Width & (Width - 1)) == 0);
#if RUNGS_GPU_CUDA
  return __shfl_up_sync(mask, value, static_cast<unsigned>(delta), Width);
#else
  const int own = static_cast<int>(lane_id()), source = own - (delta & 31);
  return shfl_idx(mask, value, source >= (own & ~(Width - 1)) ? source : own, where);
#endif
}

}  // namespace rungs::ptx
