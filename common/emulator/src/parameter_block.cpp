#include <rungs/emulator/executor.hpp>

#include <cstdlib>
#include <cstring>
#include <new>

namespace rungs::emulator {
namespace {
constexpr std::size_t kAlignment = 64;  // of a tensor map
}

void ParameterBlock::Free::operator()(void* memory) const noexcept { std::free(memory); }

ParameterBlock::ParameterBlock(const gpu::KernelArgs& arguments) {
  const auto padded = [](std::size_t size) {
    return (size + kAlignment - 1) / kAlignment * kAlignment;
  };
  std::size_t total = 0;
  for (int i = 0; i < arguments.count; i++) total += padded(arguments.sizes_bytes[i]);
  const auto count = static_cast<std::size_t>(arguments.count);
  pointers_ = std::make_unique<void*[]>(count + 1);
  if (total == 0) return;
  storage_.reset(std::aligned_alloc(kAlignment, total));
  if (storage_ == nullptr) throw std::bad_alloc();
  auto* next = static_cast<std::byte*>(storage_.get());
  for (int i = 0; i < arguments.count; i++) {
    std::memcpy(next, arguments.pointers[i], arguments.sizes_bytes[i]);
    pointers_[static_cast<std::size_t>(i)] = next;
    next += padded(arguments.sizes_bytes[i]);
  }
}

}  // namespace rungs::emulator
