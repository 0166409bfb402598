#pragma once
/// @file orders.hpp
/// Memory orders and scopes of atomics (PTX ISA, "Memory Consistency Model").

#include <rungs/ptx/where.hpp>

namespace rungs::ptx {

/// Among whose accesses one is atomic and ordered: threads of the block, of the cluster, of the
/// device, of all devices and the host.
enum class Scope { kCta, kCluster, kGpu, kSys };

/// What an access orders: nothing, what follows it, what came before it, both.
enum class Order { kRelaxed, kAcquire, kRelease, kAcqRel };

#if RUNGS_GPU_CUDA
// One instruction with the order and scope `kOrder` and `kScope` of the function around it. After
// the text: the operands.
#define RUNGS_SCOPES_ASM(instruction, text, ...)                      \
  if constexpr (kScope == Scope::kCta) {                              \
    asm volatile(instruction ".cta" text:__VA_ARGS__ : "memory");     \
  } else if constexpr (kScope == Scope::kCluster) {                   \
    asm volatile(instruction ".cluster" text:__VA_ARGS__ : "memory"); \
  } else if constexpr (kScope == Scope::kGpu) {                       \
    asm volatile(instruction ".gpu" text:__VA_ARGS__ : "memory");     \
  } else {                                                            \
    asm volatile(instruction ".sys" text:__VA_ARGS__ : "memory");     \
  }
#define RUNGS_ATOM_ASM(text, ...)                       \
  if constexpr (kOrder == Order::kRelaxed) {            \
    RUNGS_SCOPES_ASM("atom.relaxed", text, __VA_ARGS__) \
  } else if constexpr (kOrder == Order::kAcquire) {     \
    RUNGS_SCOPES_ASM("atom.acquire", text, __VA_ARGS__) \
  } else if constexpr (kOrder == Order::kRelease) {     \
    RUNGS_SCOPES_ASM("atom.release", text, __VA_ARGS__) \
  } else {                                              \
    RUNGS_SCOPES_ASM("atom.acq_rel", text, __VA_ARGS__) \
  }
#define RUNGS_RED_ASM(text, ...)                       \
  if constexpr (kOrder == Order::kRelaxed) {           \
    RUNGS_SCOPES_ASM("red.relaxed", text, __VA_ARGS__) \
  } else {                                             \
    RUNGS_SCOPES_ASM("red.release", text, __VA_ARGS__) \
  }
#endif

}  // namespace rungs::ptx
