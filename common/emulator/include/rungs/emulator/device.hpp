#pragma once
/// @file device.hpp
/// What a kernel source sees of the emulated device: the words that rungs/gpu/kernel.hpp promises
/// and CUDA's built-in indices. Included through rungs/gpu/kernel.hpp, never directly.
///
/// A kernel is an ordinary function that the emulator calls once a CUDA thread. Shared memory
/// belongs to the block that the calling thread is in, so it is looked up and not declared.

#include <rungs/config.hpp>
#include <rungs/core/dtype.hpp>

#include <cstddef>
#include <cstdint>

// Macro arguments are types and names of declarations, and some macros are CUDA's own words:
// NOLINTBEGIN(bugprone-macro-parentheses,readability-identifier-naming)
#define RUNGS_KERNEL(...) void
#define RUNGS_DEVICE inline
#define RUNGS_GRID_CONSTANT

/// The dynamic shared memory of the launch, 1024-byte aligned, seen as a T. One a kernel.
#define RUNGS_DYNAMIC_SHARED(T, name) \
  T& name = *static_cast<T*>(::rungs::emulator::dynamic_shared(sizeof(T), alignof(T)))
/// Statically sized shared memory: an object, and an array. The address of a function-local static
/// is the key under which all threads of a block find the same memory.
#define RUNGS_SHARED(T, name)            \
  static constexpr char name##_key_ = 0; \
  T& name = *static_cast<T*>(::rungs::emulator::static_shared(&name##_key_, sizeof(T), alignof(T)))
#define RUNGS_SHARED_ARRAY(T, name, count) \
  static constexpr char name##_key_ = 0;   \
  T(&name)                                 \
  [count] = *static_cast<T(*)[count]>(     \
      ::rungs::emulator::static_shared(&name##_key_, sizeof(T) * (count), alignof(T)))

#define threadIdx (::rungs::emulator::current_thread->thread_index)
#define blockIdx (::rungs::emulator::current_thread->block->block_index)
#define blockDim (::rungs::emulator::current_thread->block->block_size)
#define gridDim (::rungs::emulator::current_thread->block->grid_size)
// NOLINTEND(bugprone-macro-parentheses,readability-identifier-naming)

namespace rungs::emulator {

/// CUDA's uint3 / dim3, as far as kernels read them.
struct Index3 {
  unsigned x = 0, y = 0, z = 0;
};

/// What all threads of a block share.
struct BlockContext {
  Index3 block_index;
  Index3 block_size;
  Index3 grid_size;
};

/// The part of an emulated thread that kernel source reads. (The members that end in _ are the
/// emulator's; they stand here because a thread shall fit in one cache line.)
struct ThreadContext {
  Index3 thread_index;
  std::uint16_t index_ = 0;  // in the block
  std::uint8_t wait_kind_ = 0;
  std::uint8_t wait_detail_ = 0;
  const BlockContext* block = nullptr;
};

/// The CUDA thread that this OS thread is executing; null outside kernels. A CUDA thread never
/// changes its OS thread, so the compiler may keep the variable's address across a switch.
extern __thread ThreadContext* current_thread __attribute__((tls_model("initial-exec")));

/// The calling block's dynamic shared memory. Reports if the launch has less than `size_bytes`.
void* dynamic_shared(std::size_t size_bytes, std::size_t alignment);
/// The calling block's object known by `key`; the block's first caller creates it, poisoned with
/// 0xff.
void* static_shared(const void* key, std::size_t size_bytes, std::size_t alignment);

}  // namespace rungs::emulator
