// What the host lacks of a GPU's atomics: 16 bytes, binary16; and their checks.

#include <rungs/emulator/model_atomic.hpp>

#include "cluster.hpp"
#include "report.hpp"
#include "sanitizer.hpp"
#include "worker.hpp"

#include <cstring>
#include <mutex>

namespace rungs::emulator::model {

void check_aligned(const void* address, std::uint32_t size_bytes, const char* instruction,
                   Location where) {
  if (reinterpret_cast<std::uintptr_t>(address) % size_bytes == 0) return;
  const sanitizer::Mute mute;
  fail(where, "alignment to the size of the whole access", "%s: address %p is not %u-byte aligned",
       instruction, address, size_bytes);
}

bool in_shared_memory(const void* address) {
  const auto* at = static_cast<const std::byte*>(address);
  for (const auto& block : this_thread().home().cluster->blocks) {
    const std::byte* base = block->shared.base();
    if (at >= base && at < base + SharedMemory::kSlabBytes) return true;
  }
  return false;
}

void check_global(const void* address, std::uint32_t size_bytes, const char* instruction,
                  Location where) {
  check_aligned(address, size_bytes, instruction, where);
  if (!in_shared_memory(address)) return;
  const sanitizer::Mute mute;
  fail(where, "the form without .global", "%s: address %p is in shared memory", instruction,
       address);
}

bool compare_exchange_128(std::uint64_t* address, std::uint64_t* expected,
                          const std::uint64_t* desired) {
  bool done = false;
#if defined(__x86_64__)
  asm volatile("lock cmpxchg16b %1\n\tsete %0"
               : "=q"(done), "+m"(*reinterpret_cast<std::uint64_t(*)[2]>(address)),
                 "+a"(expected[0]), "+d"(expected[1])
               : "b"(desired[0]), "c"(desired[1])
               : "cc", "memory");
#else
  // Atomic among the threads of this process.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  done = std::memcmp(address, expected, 16) == 0;
  std::memcpy(done ? address : expected, done ? desired : address, 16);
#endif
  if (sanitizer::thread_sanitizer()) {
    sanitizer::acquire(address);
    sanitizer::release(address);
  }
  return done;
}

float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = std::uint32_t{half} >> 15 << 31;
  const std::uint32_t exponent = half >> 10 & 31;
  const std::uint32_t fraction = half & 1023;
  if (exponent == 0) {
    const float value = std::ldexp(static_cast<float>(fraction), -24);
    return sign != 0 ? -value : value;
  }
  const std::uint32_t bits = exponent == 31 ? sign | 0x7f800000u | fraction << 13
                                            : sign | (exponent + 112) << 23 | fraction << 13;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

std::uint16_t float_to_half(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const auto sign = static_cast<std::uint16_t>(bits >> 31 << 15);
  if (std::isnan(value)) return 0x7fff;
  const double size = std::fabs(static_cast<double>(value));
  if (size >= 65520.0) return static_cast<std::uint16_t>(sign | 0x7c00);
  // In units of the last place of the result, which is exact; nearbyint() rounds to nearest even.
  const int exponent = size < 0x1p-14 ? -14 : std::ilogb(size);
  const auto units = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(size, 10 - exponent)));
  const std::uint32_t result =
      units < 1024 ? units  // subnormal
                   : (static_cast<std::uint32_t>(exponent + 15) << 10) + (units - 1024);
  return static_cast<std::uint16_t>(sign | result);
}

}  // namespace rungs::emulator::model
