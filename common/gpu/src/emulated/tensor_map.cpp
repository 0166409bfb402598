#include "checks.hpp"

#include <rungs/emulator/tensor_map.hpp>

namespace rungs::gpu::detail {

TensorMap encode_tensor_map(const TensorMapRequest& request) {
  emulator::TensorMapFields fields;
  fields.base = request.base;
  fields.rows = request.rows;
  fields.cols = request.cols;
  fields.pitch_bytes = request.pitch_bytes;
  fields.box_rows = request.box_rows;
  fields.box_cols = request.box_cols;
  fields.element_bytes = static_cast<std::uint32_t>(size_bytes(request.dtype));
  fields.swizzle = request.swizzle;
  return emulator::encode_tensor_map(fields);
}

}  // namespace rungs::gpu::detail
