#pragma once
/// @file sanitizer.hpp
/// What the emulator tells AddressSanitizer and ThreadSanitizer. It is itself compiled without
/// instrumentation and calls their interfaces by weak symbols, so one object serves all builds.

#include <rungs/config.hpp>

#include <cstddef>
#include <cstdint>

extern "C" {
#define RUNGS_WEAK __attribute__((weak))
RUNGS_WEAK void* __tsan_create_fiber(unsigned flags);
RUNGS_WEAK void __tsan_destroy_fiber(void* fiber);
RUNGS_WEAK void __tsan_switch_to_fiber(void* fiber, unsigned flags);
RUNGS_WEAK void* __tsan_get_current_fiber();
RUNGS_WEAK void __tsan_set_fiber_name(void* fiber, const char* name);
RUNGS_WEAK void __tsan_acquire(void* address);
RUNGS_WEAK void __tsan_release(void* address);
RUNGS_WEAK void __tsan_read_range(void* address, unsigned long size);
RUNGS_WEAK void __tsan_write_range(void* address, unsigned long size);
RUNGS_WEAK void AnnotateIgnoreReadsBegin(const char* file, int line);
RUNGS_WEAK void AnnotateIgnoreReadsEnd(const char* file, int line);
RUNGS_WEAK void AnnotateIgnoreWritesBegin(const char* file, int line);
RUNGS_WEAK void AnnotateIgnoreWritesEnd(const char* file, int line);
RUNGS_WEAK void __asan_poison_memory_region(void const volatile* address, std::size_t size);
RUNGS_WEAK void __asan_unpoison_memory_region(void const volatile* address, std::size_t size);
RUNGS_WEAK void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom,
                                               std::size_t size);
RUNGS_WEAK void __sanitizer_finish_switch_fiber(void* fake_stack, const void** old_bottom,
                                                std::size_t* old_size);
#undef RUNGS_WEAK
}

namespace rungs::emulator::sanitizer {

inline bool thread_sanitizer() { return __tsan_create_fiber != nullptr; }
inline bool address_sanitizer() { return __asan_poison_memory_region != nullptr; }

/// TSan: what happened before release(token) is visible after acquire(token).
inline void acquire(void* token) {
  if (thread_sanitizer()) __tsan_acquire(token);
}
inline void release(void* token) {
  if (thread_sanitizer()) __tsan_release(token);
}

inline void ignore(bool on) {
  if (on) {
    AnnotateIgnoreReadsBegin("", 0);
    AnnotateIgnoreWritesBegin("", 0);
  } else {
    AnnotateIgnoreReadsEnd("", 0);
    AnnotateIgnoreWritesEnd("", 0);
  }
}

/// TSan's interceptors (memcpy, free) fire even in uninstrumented code: quiet while the emulator
/// works on its own data on behalf of a CUDA thread.
class Mute {
 public:
  Mute() {
    if (thread_sanitizer()) ignore(true);
  }
  ~Mute() {
    if (thread_sanitizer()) ignore(false);
  }
  Mute(const Mute&) = delete;
  Mute& operator=(const Mute&) = delete;
};

/// An access that a model makes for the kernel, inside a Mute: this one TSan shall see.
inline void access(const void* address, std::size_t size, bool write) {
  if (!thread_sanitizer()) return;
  ignore(false);
  if (write) {
    __tsan_write_range(const_cast<void*>(address), size);
  } else {
    __tsan_read_range(const_cast<void*>(address), size);
  }
  ignore(true);
}

inline void poison(const void* address, std::size_t size) {
  if (address_sanitizer()) __asan_poison_memory_region(address, size);
}
inline void unpoison(const void* address, std::size_t size) {
  if (address_sanitizer()) __asan_unpoison_memory_region(address, size);
}

}  // namespace rungs::emulator::sanitizer
