#pragma once
/// @file multimem.hpp
/// Accesses to one place in the memory of all devices of a multicast object (PTX ISA, "multimem"):
/// NVLink's switch reduces what it reads, and copies what is written. Emulated only: in a CUDA
/// build this header is empty, because nothing here has run on hardware.
///
/// `address` is inside gpu::Multicast::data(), naturally aligned; any thread; scope sys or gpu.
/// Only these instructions may access a multicast address (in emulation an ordinary access ends the
/// process). Between them and ordinary accesses to the memory behind it: fence_proxy_alias().
/// T: std::uint32_t, std::int32_t, std::uint64_t, std::int64_t; for additions also float, double,
/// F16x2 and Bf16x2, whose sums the switch forms in an order of its own: equal up to rounding. Sums
/// of 16-bit numbers are accumulated as float and rounded once (.acc::f32).

#include <rungs/ptx/atomic_ops.hpp>

#if !RUNGS_GPU_CUDA
#include <rungs/emulator/multicast.hpp>

namespace rungs::ptx {

/// Four of T, 16-byte aligned (T of 4 bytes): a .v4 access, which is four accesses in no order.
template <class T>
struct alignas(4 * sizeof(T)) Vector4 {
  T values[4];
};

namespace detail {

template <class T>
inline constexpr bool kMultimemInteger =
    kOneOf<T, std::uint32_t, std::int32_t, std::uint64_t, std::int64_t>;
template <class T>
inline constexpr bool kMultimemSum = kMultimemInteger<T> || kOneOf<T, float, double, F16x2, Bf16x2>;

template <class T>
T load_place(const void* place, Order order) {
  T value;
  if (order == Order::kAcquire) {
    __atomic_load(static_cast<const T*>(place), &value, __ATOMIC_ACQUIRE);
  } else {
    __atomic_load(static_cast<const T*>(place), &value, __ATOMIC_RELAXED);
  }
  return value;
}

// The sum of a pair of 16-bit numbers over all places, in float.
template <class T>
T sum_of_pairs(const emulator::model::MulticastTarget& target, Order order) {
  float low = 0;
  float high = 0;
  const auto real = [](std::uint32_t bits) {
    if constexpr (std::is_same_v<T, Bf16x2>) {
      return to_float(bf16{static_cast<std::uint16_t>(bits)});
    } else {
      return emulator::model::half_to_float(static_cast<std::uint16_t>(bits));
    }
  };
  const auto rounded = [](float value) -> std::uint32_t {
    if constexpr (std::is_same_v<T, Bf16x2>) {
      return to_bf16(value).bits;
    } else {
      return emulator::model::float_to_half(value);
    }
  };
  for (int i = 0; i < target.count; i++) {
    const T pair = load_place<T>(target.places[i], order);
    low = i == 0 ? real(pair.bits) : low + real(pair.bits);
    high = i == 0 ? real(pair.bits >> 16) : high + real(pair.bits >> 16);
  }
  return T{rounded(low) | rounded(high) << 16};
}

template <class T, class Operation>
T reduce_places(const T* address, Operation operation, Order order, const char* instruction,
                emulator::Location where) {
  const auto target = emulator::model::multicast_target(address, sizeof(T), instruction, where);
  const auto reduce = [&] {
    if constexpr (kOneOf<T, F16x2, Bf16x2>) {
      return sum_of_pairs<T>(target, order);
    } else {
      T result = load_place<T>(target.places[0], order);
      for (int i = 1; i < target.count; i++) {
        const T next = load_place<T>(target.places[i], order);
        if constexpr (std::is_floating_point_v<T>) {
          result += next;
        } else {
          result = operation(target.places[i], result, next);
        }
      }
      return result;
    }
  };
  const T result = reduce();
  if (emulator::model::polled(target.places[0], emulator::atomics::bits_of(result), where))
    return reduce();
  return result;
}

template <class T, class Operation>
void update_places(T* address, T value, Operation operation, Order order, const char* instruction,
                   emulator::Location where) {
  const auto target = emulator::model::multicast_target(address, sizeof(T), instruction, where);
  bool changed = false;
  for (int i = 0; i < target.count; i++) {
    auto* place = static_cast<T*>(target.places[i]);
    if (order == Order::kRelease) {
      emulator::atomics::update<__ATOMIC_RELEASE, __ATOMIC_RELAXED>(place, value, operation,
                                                                    &changed);
    } else {
      emulator::atomics::update<__ATOMIC_RELAXED, __ATOMIC_RELAXED>(place, value, operation,
                                                                    &changed);
    }
  }
}
}  // namespace detail

// A load that reduces over all devices, and an update of all devices.
#define RUNGS_MULTIMEM(op, Functor, types)                                                         \
  template <Order kOrder = Order::kRelaxed, class T>                                               \
  RUNGS_DEVICE T multimem_ld_reduce_##op(const T* address RUNGS_AND_WHERE) {                       \
    static_assert(types<T>);                                                                       \
    static_assert(kOrder == Order::kRelaxed || kOrder == Order::kAcquire);                         \
    return detail::reduce_places(address, emulator::atomics::Functor{}, kOrder,                    \
                                 "multimem.ld_reduce." #op, where);                                \
  }                                                                                                \
  template <Order kOrder = Order::kRelaxed, class T>                                               \
  RUNGS_DEVICE void multimem_red_##op(T* address, std::type_identity_t<T> value RUNGS_AND_WHERE) { \
    static_assert(types<T>);                                                                       \
    static_assert(kOrder == Order::kRelaxed || kOrder == Order::kRelease);                         \
    detail::update_places(address, value, emulator::atomics::Functor{}, kOrder,                    \
                          "multimem.red." #op, where);                                             \
  }
/// The sum over all devices; adds to all devices, each atomically. PTX: multimem.ld_reduce.add,
/// multimem.red.add.
RUNGS_MULTIMEM(add, Add, detail::kMultimemSum)
/// The smallest, the largest. PTX: multimem.ld_reduce.min / .max, multimem.red.min / .max.
RUNGS_MULTIMEM(min, Min, detail::kMultimemInteger)
RUNGS_MULTIMEM(max, Max, detail::kMultimemInteger)
/// Bit by bit. PTX: multimem.ld_reduce.and / .or / .xor, multimem.red.and / .or / .xor.
RUNGS_MULTIMEM(and, And, detail::kMultimemInteger)
RUNGS_MULTIMEM(or, Or, detail::kMultimemInteger)
RUNGS_MULTIMEM(xor, Xor, detail::kMultimemInteger)
#undef RUNGS_MULTIMEM

/// Sums of four values of 4 bytes. PTX: multimem.ld_reduce.add.v4 (.acc::f32 for pairs).
template <Order kOrder = Order::kRelaxed, class T>
RUNGS_DEVICE Vector4<T> multimem_ld_reduce_add_v4(const Vector4<T>* address RUNGS_AND_WHERE) {
  static_assert(detail::kOneOf<T, float, F16x2, Bf16x2>);
  emulator::model::check_aligned(address, 16, "multimem.ld_reduce.add.v4", where);
  Vector4<T> result;
  for (int i = 0; i < 4; i++)
    result.values[i] = multimem_ld_reduce_add<kOrder>(&address->values[i] RUNGS_PASS_WHERE);
  return result;
}
/// Adds four values of 4 bytes to all devices. PTX: multimem.red.add.v4.
template <Order kOrder = Order::kRelaxed, class T>
RUNGS_DEVICE void multimem_red_add_v4(Vector4<T>* address, Vector4<T> value RUNGS_AND_WHERE) {
  static_assert(detail::kOneOf<T, float, F16x2, Bf16x2>);
  emulator::model::check_aligned(address, 16, "multimem.red.add.v4", where);
  for (int i = 0; i < 4; i++)
    multimem_red_add<kOrder>(&address->values[i], value.values[i] RUNGS_PASS_WHERE);
}

/// Stores to all devices. T as multimem_ld_reduce_add(). PTX: multimem.st.
template <Order kOrder = Order::kRelaxed, class T>
RUNGS_DEVICE void multimem_st(T* address, std::type_identity_t<T> value RUNGS_AND_WHERE) {
  static_assert(detail::kMultimemSum<T>);
  static_assert(kOrder == Order::kRelaxed || kOrder == Order::kRelease);
  const auto target = emulator::model::multicast_target(address, sizeof(T), "multimem.st", where);
  for (int i = 0; i < target.count; i++)
    __atomic_store(static_cast<T*>(target.places[i]), &value, detail::host_order(kOrder));
}
/// Stores four values of 4 bytes to all devices. PTX: multimem.st.v4.
template <Order kOrder = Order::kRelaxed, class T>
RUNGS_DEVICE void multimem_st_v4(Vector4<T>* address, Vector4<T> value RUNGS_AND_WHERE) {
  emulator::model::check_aligned(address, 16, "multimem.st.v4", where);
  for (int i = 0; i < 4; i++)
    multimem_st<kOrder>(&address->values[i], value.values[i] RUNGS_PASS_WHERE);
}

}  // namespace rungs::ptx
#endif
