#pragma once
/// @file context.hpp
/// Switching between stacks. On x86-64 by our own assembly, which leaves with `ret`: CUDA threads
/// mostly wait at the same place, so the processor's return predictor is right all the way back
/// into the kernel. (fcontext leaves with an indirect jump, after which every `ret` above
/// mispredicts: 20 ns more a barrier.) Elsewhere Boost.Context.

#include <rungs/config.hpp>

#include <cstddef>

namespace rungs::emulator {

/// A suspended flow of control: its saved stack pointer.
using Context = void*;

/// A context that starts `entry` (which never returns) on the stack that ends at `top` (16-byte
/// aligned).
Context make_context(void* top, std::size_t size, void (*entry)());

/// Saves the running flow in `*save` and continues `to`. (Named for the assembly: called last in a
/// function it becomes a jump, and the resumed flow returns straight to that function's caller.)
void switch_context(Context* save, Context to) asm("rungs_emulator_switch");

/// Where the calling function's stack ends, about.
inline const std::byte* stack_pointer() {
#if defined(__x86_64__)
  const std::byte* pointer;
  asm("movq %%rsp, %0" : "=r"(pointer));
  return pointer;
#else
  return static_cast<const std::byte*>(__builtin_frame_address(0));
#endif
}

}  // namespace rungs::emulator
