#include "checks.hpp"

#include <rungs/emulator/tensor_map.hpp>

namespace rungs::gpu::detail {

TensorMap encode_tensor_map(const TensorMapSpec& spec) { return emulator::encode_tile_map(spec); }

}  // namespace rungs::gpu::detail
