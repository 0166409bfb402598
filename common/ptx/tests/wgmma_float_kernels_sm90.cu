// Kernels of the wgmma conformance tests with f32 accumulators.

#include "wgmma_kernel.hpp"

namespace rungs::ptx::test {

std::vector<WgmmaForm> float_forms() {
  std::vector<WgmmaForm> forms;
  add_forms<float, bf16, bf16>(forms);
  add_forms<float, f16, f16>(forms);
  add_forms<float, tf32, tf32>(forms);
  add_forms<float, f8e4m3, f8e4m3>(forms);
  add_forms<float, f8e4m3, f8e5m2>(forms);
  add_forms<float, f8e5m2, f8e4m3>(forms);
  add_forms<float, f8e5m2, f8e5m2>(forms);
  add_transposed<float, bf16>(forms);
  add_transposed<float, f16>(forms);
  return forms;
}

}  // namespace rungs::ptx::test
