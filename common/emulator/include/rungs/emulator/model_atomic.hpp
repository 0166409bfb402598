#pragma once
/// @file model_atomic.hpp
/// Atomic read-modify-write operations on the host, for the wrappers of rungs/ptx/atomic_ops.hpp.
/// In a header, so that sanitizers see the accesses where the kernel makes them.

#include <rungs/emulator/model.hpp>

#include <cmath>
#include <cstring>
#include <type_traits>

namespace rungs::emulator::model {

/// Reports an address that is not aligned to `size_bytes`.
void check_aligned(const void* address, std::uint32_t size_bytes, const char* instruction,
                   Location where);
/// Whether it lies in shared memory of the calling thread's cluster.
bool in_shared_memory(const void* address);
/// Reports an address in shared memory: for instructions of the .global state space.
void check_global(const void* address, std::uint32_t size_bytes, const char* instruction,
                  Location where);
/// A 16-byte compare and exchange, sequentially consistent; `expected` becomes the value before if
/// it fails. Each points to two words.
bool compare_exchange_128(std::uint64_t* address, std::uint64_t* expected,
                          const std::uint64_t* desired);
/// binary16 and back; to nearest even.
float half_to_float(std::uint16_t half);
std::uint16_t float_to_half(float value);

}  // namespace rungs::emulator::model

namespace rungs::emulator::atomics {

template <class T>
std::uint64_t bits_of(const T& value) {
  std::uint64_t bits = 0;
  memcpy(&bits, &value, sizeof(T));
  return bits;
}

inline float flushed(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value;
}

inline std::uint16_t add_half(std::uint16_t a, std::uint16_t b) {
  // Twice the precision and two bits: rounding the rounded sum is rounding once.
  return model::float_to_half(model::half_to_float(a) + model::half_to_float(b));
}
inline std::uint16_t add_bf16(std::uint16_t a, std::uint16_t b) {
  return to_bf16(to_float(bf16{a}) + to_float(bf16{b})).bits;
}

/// T or one of ptx's pairs of 16-bit numbers, which have no operators.
struct Add {
  template <class T>
  T operator()(const void* address, T memory, T operand) const {
    if constexpr (std::is_same_v<T, float>) {
      const float sum = memory + operand;
      const bool tiny = std::fpclassify(sum) == FP_SUBNORMAL ||
                        std::fpclassify(memory) == FP_SUBNORMAL ||
                        std::fpclassify(operand) == FP_SUBNORMAL;
      if (!tiny || model::in_shared_memory(address)) return sum;
      return flushed(flushed(memory) + flushed(operand));
    } else if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(memory) + static_cast<U>(operand));
    } else if constexpr (std::is_floating_point_v<T>) {
      return memory + operand;
    } else {
      const auto low = static_cast<std::uint16_t>(operand.bits);
      const auto high = static_cast<std::uint16_t>(operand.bits >> 16);
      const auto memory_low = static_cast<std::uint16_t>(memory.bits);
      const auto memory_high = static_cast<std::uint16_t>(memory.bits >> 16);
      return T{T::add(memory_low, low) | std::uint32_t{T::add(memory_high, high)} << 16};
    }
  }
};
#define RUNGS_ATOMIC_OPERATION(name, expression)                       \
  struct name {                                                        \
    template <class T>                                                 \
    T operator()(const void* /*address*/, T memory, T operand) const { \
      return expression;                                               \
    }                                                                  \
  };
RUNGS_ATOMIC_OPERATION(Min, operand < memory ? operand : memory)
RUNGS_ATOMIC_OPERATION(Max, operand > memory ? operand : memory)
RUNGS_ATOMIC_OPERATION(And, memory& operand)
RUNGS_ATOMIC_OPERATION(Or, memory | operand)
RUNGS_ATOMIC_OPERATION(Xor, memory ^ operand)
RUNGS_ATOMIC_OPERATION(Inc, memory >= operand ? 0 : memory + 1)
RUNGS_ATOMIC_OPERATION(Dec, memory == 0 || memory > operand ? operand : memory - 1)
#undef RUNGS_ATOMIC_OPERATION
struct Exchange {
  template <class T>
  T operator()(const void* /*address*/, T /*memory*/, T operand) const {
    return operand;
  }
};

/// One atomic update of 4 or 8 bytes; returns the value before.
template <int kOrder, int kLoadOrder, class T, class Operation>
T update(T* address, T operand, Operation operation, bool* changed) {
  using Word = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  auto* word = reinterpret_cast<Word*>(address);
  Word seen = __atomic_load_n(word, kLoadOrder);
  for (;;) {
    T before;
    memcpy(&before, &seen, sizeof(T));
    const T after = operation(address, before, operand);
    Word next;
    memcpy(&next, &after, sizeof(T));
    *changed = next != seen;
    if (__atomic_compare_exchange_n(word, &seen, next, false, kOrder, kLoadOrder)) return before;
  }
}

}  // namespace rungs::emulator::atomics
