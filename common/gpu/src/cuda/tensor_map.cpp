#include "api.hpp"
#include "checks.hpp"

#include <cstring>

namespace rungs::gpu::detail {
namespace {

CUtensorMapDataType data_type(TensorElement element) {
  switch (element) {
    case TensorElement::kU8:
      return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    case TensorElement::kU16:
      return CU_TENSOR_MAP_DATA_TYPE_UINT16;
    case TensorElement::kU32:
      return CU_TENSOR_MAP_DATA_TYPE_UINT32;
    case TensorElement::kI32:
      return CU_TENSOR_MAP_DATA_TYPE_INT32;
    case TensorElement::kU64:
      return CU_TENSOR_MAP_DATA_TYPE_UINT64;
    case TensorElement::kI64:
      return CU_TENSOR_MAP_DATA_TYPE_INT64;
    case TensorElement::kF16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case TensorElement::kF32:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    case TensorElement::kF64:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
    case TensorElement::kBf16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case TensorElement::kF32Ftz:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ;
    case TensorElement::kTf32:
      return CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;
    case TensorElement::kTf32Ftz:
      return CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ;
  }
  RUNGS_THROW(kInternal, "tensor map: element type ", static_cast<int>(element),
              " was not refused");
}

CUtensorMapSwizzle swizzle_of(Swizzle swizzle) {
  switch (swizzle) {
    case Swizzle::kNone:
      return CU_TENSOR_MAP_SWIZZLE_NONE;
    case Swizzle::k32B:
      return CU_TENSOR_MAP_SWIZZLE_32B;
    case Swizzle::k64B:
      return CU_TENSOR_MAP_SWIZZLE_64B;
    case Swizzle::k128B:
      return CU_TENSOR_MAP_SWIZZLE_128B;
  }
  RUNGS_THROW(kInternal, "tensor map: swizzle ", static_cast<int>(swizzle), " was not refused");
}

CUtensorMapL2promotion promotion_of(L2Promotion promotion) {
  switch (promotion) {
    case L2Promotion::kNone:
      return CU_TENSOR_MAP_L2_PROMOTION_NONE;
    case L2Promotion::k64B:
      return CU_TENSOR_MAP_L2_PROMOTION_L2_64B;
    case L2Promotion::k128B:
      return CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
    case L2Promotion::k256B:
      return CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
  }
  RUNGS_THROW(kInternal, "tensor map: L2 promotion ", static_cast<int>(promotion),
              " was not refused");
}

}  // namespace

TensorMap encode_tensor_map(const TensorMapSpec& spec) {
  static_assert(sizeof(TensorMap) == sizeof(CUtensorMap) && alignof(TensorMap) >= 64);
  static_assert(sizeof(cuuint64_t) == sizeof(spec.sizes[0]) &&
                sizeof(cuuint32_t) == sizeof(spec.box[0]));
  cuuint64_t sizes[TensorMapSpec::kMaxRank] = {};
  cuuint64_t strides[TensorMapSpec::kMaxRank] = {};
  for (std::size_t d = 0; d < spec.sizes.size(); d++) sizes[d] = spec.sizes[d];
  for (std::size_t d = 0; d < spec.strides_bytes.size(); d++) strides[d] = spec.strides_bytes[d];
  alignas(64) CUtensorMap encoded{};
  check(driver().tensor_map_encode_tiled(
            &encoded, data_type(spec.element), static_cast<cuuint32_t>(spec.rank),
            const_cast<void*>(spec.base), sizes, strides, spec.box.data(),
            spec.element_strides.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(spec.swizzle),
            promotion_of(spec.promotion),
            spec.fill == OutOfBounds::kNan ? CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA
                                           : CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        "cuTensorMapEncodeTiled");
  TensorMap map;
  std::memcpy(&map, &encoded, sizeof(map));
  return map;
}

}  // namespace rungs::gpu::detail
