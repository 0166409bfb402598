// Kernels of the wgmma conformance tests with f16 and s32 accumulators.

#include "wgmma_kernel.hpp"

namespace rungs::ptx::test {

std::vector<WgmmaForm> narrow_forms() {
  using std::int32_t, std::int8_t, std::uint8_t;
  std::vector<WgmmaForm> forms;
  add_forms<f16, f16, f16>(forms);
  add_forms<f16, f8e4m3, f8e4m3>(forms);
  add_forms<f16, f8e4m3, f8e5m2>(forms);
  add_forms<f16, f8e5m2, f8e4m3>(forms);
  add_forms<f16, f8e5m2, f8e5m2>(forms);
  add_transposed<f16, f16>(forms);
  add_forms<int32_t, int8_t, int8_t>(forms);
  add_forms<int32_t, int8_t, uint8_t>(forms);
  add_forms<int32_t, uint8_t, int8_t>(forms);
  add_forms<int32_t, uint8_t, uint8_t>(forms);
  add_forms<int32_t, int8_t, int8_t, kWgmmaSatfinite>(forms);
  add_forms<int32_t, int8_t, uint8_t, kWgmmaSatfinite>(forms);
  add_forms<int32_t, uint8_t, int8_t, kWgmmaSatfinite>(forms);
  add_forms<int32_t, uint8_t, uint8_t, kWgmmaSatfinite>(forms);
  return forms;
}

}  // namespace rungs::ptx::test
