#include "stack_pool.hpp"

#include <rungs/core/error.hpp>

#include "sanitizer.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace rungs::emulator {
namespace {

constexpr std::size_t kStacksPerSlab = 64;
constexpr std::uint64_t kCanary = 0x5afe57acc0ffee01ull;

// Sanitizers' frames are several times as large. Pages that are never touched cost nothing.
std::size_t stack_bytes() {
  const bool sanitized = sanitizer::address_sanitizer() || sanitizer::thread_sanitizer();
  return (sanitized ? 256 : 64) * std::size_t{1024};
}

// From one stack to the next. Not a power of two: else the pages of all hot ends would fall into a
// few sets of the second-level TLB, and from 200 threads on every switch would walk the page table.
std::size_t pitch_bytes() { return stack_bytes() + std::size_t{4096}; }

}  // namespace

// One mapping a slab: with a guard page a stack the kernel's limit on mappings (vm.max_map_count)
// would be met at about 32,000 threads, so overflow is found by a canary and by checks at every
// switch.
void StackPool::grow() {
  const std::size_t size_bytes = stack_bytes();
  void* slab = mmap(nullptr, pitch_bytes() * kStacksPerSlab, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (slab == MAP_FAILED) {
    std::fprintf(stderr, "rungs emulator: no memory for %zu thread stacks: %s\n", kStacksPerSlab,
                 std::strerror(errno));
    std::abort();
  }
  slabs_.push_back(slab);
  for (std::size_t i = kStacksPerSlab; i-- > 0;) {
    // Without the color the hot ends of all stacks would fall into the same few cache sets.
    const std::size_t color_bytes = stacks_.size() * 5 % 64 * 64;
    std::byte* const bottom = static_cast<std::byte*>(slab) + i * pitch_bytes();
    auto* stack = new (bottom + size_bytes - color_bytes - sizeof(Stack)) Stack;
    stack->bottom = bottom;
    stack->size_bytes = size_bytes;
    std::memcpy(bottom, &kCanary, sizeof(kCanary));
    prepare(*stack);
    free_.push_back(stack);
    stacks_.push_back(stack);
  }
}

void StackPool::prepare(Stack& stack) {
  auto* const top = reinterpret_cast<std::byte*>(&stack);
  stack.idle = make_context(top, static_cast<std::size_t>(top - stack.bottom), entry_);
  if (sanitizer::thread_sanitizer()) stack.tsan_fiber = __tsan_create_fiber(0);
}

void StackPool::put_abandoned(Stack* stack) {
  sanitizer::unpoison(stack->bottom, stack->size_bytes);
  stack->fake_stack = nullptr;
  if (stack->tsan_fiber != nullptr) {
    // In the middle of its calls it cannot be reused or destroyed; it is dropped. Switching there
    // and back with flag 0 orders what it did before what comes after.
    void* here = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(stack->tsan_fiber, 0);
    __tsan_switch_to_fiber(here, 0);
  }
  prepare(*stack);
  free_.push_back(stack);
}

void StackPool::check_canary(const Stack& stack) {
  std::uint64_t found;
  std::memcpy(&found, stack.bottom, sizeof(found));
  if (found == kCanary) return;
  std::fprintf(
      stderr,
      "rungs emulator: a kernel thread overflowed its stack of %zu KB: smaller local arrays\n",
      stack.size_bytes / 1024);
  std::abort();
}

StackPool::~StackPool() {
  for (Stack* const stack : stacks_) {
    check_canary(*stack);
    if (stack->tsan_fiber != nullptr) __tsan_destroy_fiber(stack->tsan_fiber);
    sanitizer::unpoison(stack->bottom, stack->size_bytes);
  }
  for (void* slab : slabs_) munmap(slab, pitch_bytes() * kStacksPerSlab);
}

}  // namespace rungs::emulator
