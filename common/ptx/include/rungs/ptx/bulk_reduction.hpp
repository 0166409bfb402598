#pragma once
/// @file bulk_reduction.hpp
/// The operations and element types of cp.reduce.async.bulk, and how PTX calls them. Included by
/// bulk.hpp.

#include <rungs/gpu/tensor_map.hpp>
#include <rungs/ptx/where.hpp>

#include <type_traits>

namespace rungs::ptx {

using gpu::BulkReduction;
using gpu::TensorElement;

/// Whether cp.reduce.async.bulk exists for the operation and type ("Valid combinations of .redOp
/// and element type"). Bit operations take the integer of the width.
RUNGS_HD constexpr bool bulk_reduction_exists(BulkReduction reduction, TensorElement type,
                                              bool global) {
  using E = TensorElement;
  const bool word = type == E::kU32 || type == E::kI32;
  const bool wide = type == E::kU64 || type == E::kI64;
  const bool half = type == E::kF16 || type == E::kBf16;
  switch (reduction) {
    case BulkReduction::kAdd:
      return word || type == E::kU64 || (global && (half || type == E::kF32 || type == E::kF64));
    case BulkReduction::kMin:
    case BulkReduction::kMax:
      return word || (global && (wide || half));
    case BulkReduction::kInc:
    case BulkReduction::kDec:
      return type == E::kU32;
    default:
      return word || (global && wide);
  }
}

#if RUNGS_GPU_CUDA
namespace detail {
template <BulkReduction>
struct ReductionText;
template <TensorElement>
struct TypeText;
#define RUNGS_TEXT(Template, value, string)      \
  template <>                                    \
  struct Template<value> {                       \
    static constexpr const char text[] = string; \
  }
RUNGS_TEXT(ReductionText, BulkReduction::kAdd, "add");
RUNGS_TEXT(ReductionText, BulkReduction::kMin, "min");
RUNGS_TEXT(ReductionText, BulkReduction::kMax, "max");
RUNGS_TEXT(ReductionText, BulkReduction::kInc, "inc");
RUNGS_TEXT(ReductionText, BulkReduction::kDec, "dec");
RUNGS_TEXT(ReductionText, BulkReduction::kAnd, "and");
RUNGS_TEXT(ReductionText, BulkReduction::kOr, "or");
RUNGS_TEXT(ReductionText, BulkReduction::kXor, "xor");
RUNGS_TEXT(TypeText, TensorElement::kU32, "u32");
RUNGS_TEXT(TypeText, TensorElement::kI32, "s32");
RUNGS_TEXT(TypeText, TensorElement::kU64, "u64");
RUNGS_TEXT(TypeText, TensorElement::kI64, "s64");
RUNGS_TEXT(TypeText, TensorElement::kF16, "f16");
RUNGS_TEXT(TypeText, TensorElement::kBf16, "bf16");
RUNGS_TEXT(TypeText, TensorElement::kF32, "f32");
RUNGS_TEXT(TypeText, TensorElement::kF64, "f64");
#undef RUNGS_TEXT
struct AddNoFtz {
  static constexpr const char text[] = "add.noftz";
};
struct Bits32 {
  static constexpr const char text[] = "b32";
};
struct Bits64 {
  static constexpr const char text[] = "b64";
};
template <BulkReduction R, TensorElement T>
using OperationText = std::conditional_t<R == BulkReduction::kAdd && (T == TensorElement::kF16 ||
                                                                      T == TensorElement::kBf16),
                                         AddNoFtz, ReductionText<R>>;
template <BulkReduction R, TensorElement T>
using OperandText = std::conditional_t<
    (R < BulkReduction::kAnd), TypeText<T>,
    std::conditional_t<T == TensorElement::kU64 || T == TensorElement::kI64, Bits64, Bits32>>;
}  // namespace detail
#endif

}  // namespace rungs::ptx
