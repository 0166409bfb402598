#include "fixture.hpp"
#include "warp_conformance.hpp"

#include <rungs/core/dtype.hpp>
#include <rungs/testing/conforms.hpp>
#include <rungs/testing/random.hpp>

#include <cstddef>
#include <vector>

namespace rungs::ptx::test {
namespace {

// Small integers, so that the result is exact in f32 and in bf16 (below 256 in size).
TEST_F(Conformance, PipelinedMultiplication) {
  testing::conforms(
      "cp_async_cg_zero_fill cp_async_commit_group cp_async_wait_group ldmatrix mma_m16n8k16_bf16 "
      "cvt_bf16x2 stmatrix");
  const struct {
    std::size_t m, n, k;
  } shapes[] = {{64, 32, 32}, {64, 32, 256}, {50, 24, 96}, {130, 70, 64}};
  for (const auto& [m, n, k] : shapes) {
    testing::Random random(51);
    const auto integers = [&random](std::size_t count) {
      std::vector<int> values(count);
      for (int& value : values)
        value = random.below(4) == 0 ? static_cast<int>(random.below(5)) - 2 : 0;
      return values;
    };
    const std::vector<int> a = integers(m * k), b = integers(n * k);
    std::vector<bf16> a_bits(a.size()), b_bits(b.size());
    for (std::size_t i = 0; i < a.size(); i++) a_bits[i] = to_bf16(static_cast<float>(a[i]));
    for (std::size_t i = 0; i < b.size(); i++) b_bits[i] = to_bf16(static_cast<float>(b[i]));
    const auto device_a = upload(a_bits), device_b = upload(b_bits);
    const auto buffer = filled<float>(m * n, 1e9f);
    launch_mma_gemm(nullptr, device_a.data(), device_b.data(), buffer.data(),
                    static_cast<unsigned>(m), static_cast<unsigned>(n), static_cast<unsigned>(k));
    const std::vector<float> d = buffer.download();
    for (std::size_t r = 0; r < m; r++) {
      for (std::size_t c = 0; c < n; c++) {
        int sum = 0;
        for (std::size_t i = 0; i < k; i++) sum += a[r * k + i] * b[c * k + i];
        ASSERT_LT(sum * sum, 256 * 256);
        ASSERT_EQ(d[r * n + c], static_cast<float>(sum))
            << m << "x" << n << "x" << k << " (" << r << ", " << c << ")";
      }
    }
  }
}

}  // namespace
}  // namespace rungs::ptx::test
