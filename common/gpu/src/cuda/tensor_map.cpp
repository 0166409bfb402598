#include "api.hpp"
#include "checks.hpp"

#include <array>
#include <cstring>

namespace rungs::gpu::detail {
namespace {

CUtensorMapDataType data_type(DType dtype) {
  switch (dtype) {
    case DType::kI8:
    case DType::kU8:
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    case DType::kI32:
      return CU_TENSOR_MAP_DATA_TYPE_INT32;
    case DType::kU32:
      return CU_TENSOR_MAP_DATA_TYPE_UINT32;
    case DType::kI64:
      return CU_TENSOR_MAP_DATA_TYPE_INT64;
    case DType::kU64:
      return CU_TENSOR_MAP_DATA_TYPE_UINT64;
    case DType::kF16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::kF32:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    case DType::kF64:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
    case DType::kBf16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  }
  RUNGS_THROW(kInternal, "tensor map: dtype ", static_cast<int>(dtype), " was not refused");
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

}  // namespace

TensorMap encode_tensor_map(const TensorMapRequest& request) {
  static_assert(sizeof(TensorMap) == sizeof(CUtensorMap) && alignof(TensorMap) >= 64);
  // CUDA counts dimensions from the contiguous one, whose stride is not said.
  const std::array<cuuint64_t, 2> extents{request.cols, request.rows};
  const std::array<cuuint64_t, 1> strides{request.pitch_bytes};
  const std::array<cuuint32_t, 2> box{request.box_cols, request.box_rows};
  const std::array<cuuint32_t, 2> every{1, 1};
  alignas(64) CUtensorMap encoded{};
  check(driver().tensor_map_encode_tiled(
            &encoded, data_type(request.dtype), 2, const_cast<void*>(request.base), extents.data(),
            strides.data(), box.data(), every.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzle_of(request.swizzle), CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        "cuTensorMapEncodeTiled");
  TensorMap map;
  std::memcpy(&map, &encoded, sizeof(map));
  return map;
}

}  // namespace rungs::gpu::detail
