#pragma once
/// @file kernel_entries.hpp
/// How the kernels of one algorithm over one protocol become a table, for stages that bring more.

#include <rungs/collectives/kernel_table.hpp>
#include <rungs/core/dtype.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace rungs::collectives {

/// What all kernels of a family share; fields as in KernelEntry.
struct KernelFamily {
  std::string_view algorithm;
  ProtocolId protocol;
  unsigned threads;
  std::size_t slot_bytes;
  std::size_t payload_bytes;
  std::string_view (*illegal)(const Surroundings&);
};

namespace detail {

// Not a generic lambda of kernel_entries(): nvcc would look for missing members there.
template <class Kernels, class T, class O, class Add>
void add_reducing(const Add& add) {
  constexpr DType kType = dtype_of<T>::value;
  if constexpr (requires { Kernels::template all_reduce<T, O>(); })
    add(Collective::kAllReduce, kType, O::kOp, Kernels::template all_reduce<T, O>());
  if constexpr (requires { Kernels::template reduce_scatter<T, O>(); })
    add(Collective::kReduceScatter, kType, O::kOp, Kernels::template reduce_scatter<T, O>());
}

}  // namespace detail

/// The collectives of a family: the reducing ones for f32, bf16, i32 × each of Ops, the moving ones
/// in bytes.
/// @tparam Kernels names the kernels. Static members, each returning a Kernel; a family need not
///         have all: all_reduce<T, O>(), reduce_scatter<T, O>(), all_gather(), broadcast(),
///         all_to_all()
/// @tparam Ops operators of reduce_device.hpp: types with a kOp
template <class Kernels, class... Ops>
std::vector<KernelEntry> kernel_entries(const KernelFamily& family) {
  std::vector<KernelEntry> table;
  const auto add = [&](Collective what, DType dtype, Op op, Kernel kernel) {
    table.push_back({what, family.algorithm, family.protocol, dtype, op, kernel, family.threads,
                     family.slot_bytes, family.payload_bytes, family.illegal});
  };
  (detail::add_reducing<Kernels, float, Ops>(add), ...);
  (detail::add_reducing<Kernels, bf16, Ops>(add), ...);
  (detail::add_reducing<Kernels, std::int32_t, Ops>(add), ...);
  if constexpr (requires { Kernels::all_gather(); })
    add(Collective::kAllGather, DType::kU8, Op::kSum, Kernels::all_gather());
  if constexpr (requires { Kernels::broadcast(); })
    add(Collective::kBroadcast, DType::kU8, Op::kSum, Kernels::broadcast());
  if constexpr (requires { Kernels::all_to_all(); })
    add(Collective::kAllToAll, DType::kU8, Op::kSum, Kernels::all_to_all());
  return table;
}

}  // namespace rungs::collectives
