#include <rungs/gpu/tensor_map.hpp>

#include "checks.hpp"

#include <rungs/core/error.hpp>

#include <cstdint>

namespace rungs::gpu {
namespace {

constexpr std::uint64_t kAlignment = 16;  // of base, strides and box row: TMA moves 16-byte chunks
constexpr std::uint64_t kMaxExtent = std::uint64_t{1} << 32;
constexpr std::uint64_t kMaxStrideBytes = std::uint64_t{1} << 40;
constexpr std::uint32_t kMaxBox = 256;
constexpr std::uint32_t kMaxElementStride = 8;

struct ElementInfo {
  const char* name;
  std::uint64_t size_bytes;
  bool floating;
};

ElementInfo info_of(TensorElement element) {
  switch (element) {
    case TensorElement::kU8:
      return {"u8", 1, false};
    case TensorElement::kU16:
      return {"u16", 2, false};
    case TensorElement::kU32:
      return {"u32", 4, false};
    case TensorElement::kI32:
      return {"i32", 4, false};
    case TensorElement::kU64:
      return {"u64", 8, false};
    case TensorElement::kI64:
      return {"i64", 8, false};
    case TensorElement::kF16:
      return {"f16", 2, true};
    case TensorElement::kF32:
      return {"f32", 4, true};
    case TensorElement::kF64:
      return {"f64", 8, true};
    case TensorElement::kBf16:
      return {"bf16", 2, true};
    case TensorElement::kF32Ftz:
      return {"f32_ftz", 4, true};
    case TensorElement::kTf32:
      return {"tf32", 4, true};
    case TensorElement::kTf32Ftz:
      return {"tf32_ftz", 4, true};
  }
  RUNGS_THROW(kInvalidArgument, "tensor map: element type ", static_cast<int>(element),
              " does not exist");
}

std::uint64_t span_bytes(Swizzle swizzle) {
  switch (swizzle) {
    case Swizzle::kNone:
      return 0;
    case Swizzle::k32B:
      return 32;
    case Swizzle::k64B:
      return 64;
    case Swizzle::k128B:
      return 128;
  }
  RUNGS_THROW(kInvalidArgument, "tensor map: swizzle ", static_cast<int>(swizzle),
              " does not exist");
}

void check_dimension(const TensorMapSpec& spec, int d) {
  const auto i = static_cast<std::size_t>(d);
  RUNGS_REQUIRE(spec.sizes[i] >= 1 && spec.sizes[i] <= kMaxExtent, "tensor map: dimension ", d,
                " has ", spec.sizes[i], " elements, it must have 1 to ", kMaxExtent);
  RUNGS_REQUIRE(spec.box[i] >= 1 && spec.box[i] <= kMaxBox, "tensor map: the box has ", spec.box[i],
                " elements in dimension ", d, ", it must have 1 to ", kMaxBox);
  RUNGS_REQUIRE(spec.element_strides[i] >= 1 && spec.element_strides[i] <= kMaxElementStride,
                "tensor map: the element stride of dimension ", d, " is ", spec.element_strides[i],
                ", it must be 1 to ", kMaxElementStride);
  if (d == 0) return;
  const std::uint64_t stride = spec.strides_bytes[i - 1];
  RUNGS_REQUIRE(stride % kAlignment == 0 && stride < kMaxStrideBytes, "tensor map: the stride of ",
                stride, " bytes of dimension ", d, " must be a multiple of ", kAlignment,
                " below 2^40");
}

}  // namespace

TensorElement tensor_element(DType dtype) {
  switch (dtype) {
    case DType::kI8:
    case DType::kU8:
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      return TensorElement::kU8;
    case DType::kI32:
      return TensorElement::kI32;
    case DType::kU32:
      return TensorElement::kU32;
    case DType::kI64:
      return TensorElement::kI64;
    case DType::kU64:
      return TensorElement::kU64;
    case DType::kF16:
      return TensorElement::kF16;
    case DType::kF32:
      return TensorElement::kF32;
    case DType::kF64:
      return TensorElement::kF64;
    case DType::kBf16:
      return TensorElement::kBf16;
  }
  RUNGS_THROW(kInvalidArgument, "tensor map: dtype ", static_cast<int>(dtype), " does not exist");
}

TensorMap make_tensor_map(const TensorMapSpec& spec) {
  const ElementInfo element = info_of(spec.element);
  RUNGS_REQUIRE(spec.rank >= 1 && spec.rank <= TensorMapSpec::kMaxRank, "tensor map: rank ",
                spec.rank, ", it must be 1 to ", int{TensorMapSpec::kMaxRank});
  RUNGS_REQUIRE(
      spec.base != nullptr && reinterpret_cast<std::uintptr_t>(spec.base) % kAlignment == 0,
      "tensor map: base ", spec.base, " must not be null and must be a multiple of ", kAlignment,
      " bytes");
  for (int d = 0; d < spec.rank; d++) check_dimension(spec, d);
  RUNGS_REQUIRE(spec.element_strides[0] == 1, "tensor map: the element stride of dimension 0 is ",
                spec.element_strides[0], ", it must be 1");
  const std::uint64_t box_bytes = spec.box[0] * element.size_bytes;
  RUNGS_REQUIRE(box_bytes % kAlignment == 0, "tensor map: a box row of ", spec.box[0], " ",
                element.name, " has ", box_bytes, " bytes, it must be a multiple of ", kAlignment);
  const std::uint64_t span = span_bytes(spec.swizzle);
  RUNGS_REQUIRE(span == 0 || box_bytes <= span, "tensor map: a box row of ", box_bytes,
                " bytes is wider than the swizzle's ", span,
                " bytes; take narrower boxes and several copies");
  RUNGS_REQUIRE(spec.fill == OutOfBounds::kZero || spec.fill == OutOfBounds::kNan,
                "tensor map: fill ", static_cast<int>(spec.fill), " does not exist");
  RUNGS_REQUIRE(spec.fill == OutOfBounds::kZero || element.floating,
                "tensor map: elements outside a tensor of ", element.name,
                " cannot be filled with NaN, only those of floating-point types");
  RUNGS_REQUIRE(spec.promotion <= L2Promotion::k256B, "tensor map: L2 promotion ",
                static_cast<int>(spec.promotion), " does not exist");
  return detail::encode_tensor_map(spec);
}

TensorMap make_tensor_map_2d(const void* base, DType dtype, std::uint64_t rows, std::uint64_t cols,
                             std::uint64_t pitch_bytes, std::uint32_t box_rows,
                             std::uint32_t box_cols, Swizzle swizzle) {
  TensorMapSpec spec;
  spec.base = base;
  spec.element = tensor_element(dtype);
  spec.sizes = {cols, rows};
  spec.strides_bytes = {pitch_bytes};
  spec.box = {box_cols, box_rows};
  spec.swizzle = swizzle;
  RUNGS_REQUIRE(cols > kMaxExtent || pitch_bytes >= cols * size_bytes(dtype),
                "tensor map: a pitch of ", pitch_bytes, " bytes is less than a row of ", cols, " ",
                to_string(dtype), " (", cols * size_bytes(dtype), " bytes)");
  return make_tensor_map(spec);
}

}  // namespace rungs::gpu
