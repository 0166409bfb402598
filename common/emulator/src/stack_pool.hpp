#pragma once
/// @file stack_pool.hpp
/// The stacks on which a worker runs CUDA threads.

#include <rungs/config.hpp>

#include "context.hpp"

#include <cstddef>
#include <memory>
#include <vector>

namespace rungs::emulator {

/// One stack, described at its upper end, above the first frame. While it is in the pool, `idle` is
/// the flow that waits in the worker's thread loop.
struct alignas(64) Stack {
  std::byte* bottom = nullptr;
  std::size_t size_bytes = 0;
  Context idle = nullptr;
  void* tsan_fiber = nullptr;
  void* fake_stack = nullptr;  ///< ASan's, while suspended

  static constexpr std::ptrdiff_t kLeastBytes = std::ptrdiff_t{60} * 1024;  // of any, below *this
  static constexpr std::ptrdiff_t kReserveBytes = 2048;
  /// Whether there is certainly room below `pointer`. Looks at no memory: that line may be cold.
  [[nodiscard]] bool has_room(const std::byte* pointer) const {
    return reinterpret_cast<const std::byte*>(this) - pointer < kLeastBytes - kReserveBytes;
  }
};

class StackPool {
 public:
  explicit StackPool(void (*entry)()) : entry_(entry) {}
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  Stack* take() {
    if (free_.empty()) grow();
    Stack* stack = free_.back();
    free_.pop_back();
    return stack;
  }
  void put(Stack* stack) { free_.push_back(stack); }
  /// Takes back the stack of a thread that will never be resumed.
  void put_abandoned(Stack* stack);
  /// Ends the process if the lowest word of the stack was overwritten.
  static void check_canary(const Stack& stack);

 private:
  void grow();
  void prepare(Stack& stack);

  void (*entry_)();
  std::vector<void*> slabs_;
  std::vector<Stack*> stacks_;
  std::vector<Stack*> free_;
};

}  // namespace rungs::emulator
