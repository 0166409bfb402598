#pragma once
/// @file cache_policy.hpp
/// L2 eviction policies for the instructions that take a cache hint (PTX ISA, "Data Movement and
/// Conversion Instructions: createpolicy", and "Cache Eviction Priority Hints").

#include <rungs/ptx/where.hpp>

#if !RUNGS_GPU_CUDA
#include <rungs/emulator/model_bulk.hpp>
#endif

namespace rungs::ptx {

/// How soon L2 gives up a line.
enum class L2Priority { kEvictFirst, kEvictNormal, kEvictLast, kEvictUnchanged };

#if RUNGS_GPU_CUDA
namespace detail {
template <L2Priority>
struct PriorityText;
template <>
struct PriorityText<L2Priority::kEvictFirst> {
  static constexpr const char text[] = "L2::evict_first";
};
template <>
struct PriorityText<L2Priority::kEvictNormal> {
  static constexpr const char text[] = "L2::evict_normal";
};
template <>
struct PriorityText<L2Priority::kEvictLast> {
  static constexpr const char text[] = "L2::evict_last";
};
template <>
struct PriorityText<L2Priority::kEvictUnchanged> {
  static constexpr const char text[] = "L2::evict_unchanged";
};
}  // namespace detail
#endif

/// A policy that gives `fraction` of the accesses (above 0, at most 1) the priority `Primary` and
/// the others `Secondary` (kEvictFirst or kEvictUnchanged). Any thread; a hint, without effect on
/// what is read or written. The value is opaque: pass it to the ..._hint() functions.
/// PTX: createpolicy.fractional.
template <L2Priority Primary, L2Priority Secondary = L2Priority::kEvictUnchanged>
RUNGS_DEVICE std::uint64_t createpolicy_fractional(float fraction = 1.0f RUNGS_AND_WHERE) {
  static_assert(Secondary == L2Priority::kEvictFirst || Secondary == L2Priority::kEvictUnchanged);
#if RUNGS_GPU_CUDA
  std::uint64_t policy;
  asm volatile("createpolicy.fractional.%2.%3.b64 %0, %1;"
               : "=l"(policy)
               : "f"(fraction), "C"(detail::PriorityText<Primary>::text),
                 "C"(detail::PriorityText<Secondary>::text));
  return policy;
#else
  return emulator::model::cache_policy(fraction, where);
#endif
}

}  // namespace rungs::ptx
