// TMA loads and stores in a ring with mbarriers, over lengths around the number of stages.

#include "bulk_conformance.hpp"
#include "fixture.hpp"

#include <rungs/testing/conforms.hpp>

#include <cstdint>
#include <vector>

namespace rungs::ptx::test {
namespace {

class RingConformance : public Conformance {};

TEST_F(RingConformance, LoadsAndStoresInPlace) {
  rungs::testing::conforms("tma_load tma_store bulk_commit bulk_wait_read bulk_wait mbarrier_wait");
  constexpr std::uint64_t kCols = 28, kRows = 7, kPitch = 128;  // less than a box
  for (const int tiles : {1, 2, 3, 4, 7, 24}) {
    for (const unsigned blocks : {1u, 2u}) {
      const std::size_t count = kPitch / 4 * kRows * static_cast<std::size_t>(tiles);
      std::vector<std::uint32_t> values(count);
      for (std::size_t i = 0; i < count; i++)
        values[i] = static_cast<std::uint32_t>(i) * 2654435761u;
      const auto in = upload(values);
      const auto out = filled<std::uint32_t>(count, 0xeeeeeeee);
      gpu::TensorMapSpec spec;
      spec.element = gpu::TensorElement::kU32;
      spec.rank = 3;
      spec.sizes = {kCols, kRows, static_cast<std::uint64_t>(tiles)};
      spec.strides_bytes = {kPitch, kPitch * kRows};
      spec.box = {32, 8, 1};
      spec.swizzle = gpu::Swizzle::k128B;
      spec.base = in.data();
      const gpu::TensorMap from = gpu::make_tensor_map(spec);
      spec.base = out.data();
      launch_ring(nullptr, from, gpu::make_tensor_map(spec), tiles, blocks);
      const std::vector<std::uint32_t> found = out.download();
      for (std::size_t i = 0; i < count; i++) {
        const bool inside = i % (kPitch / 4) < kCols;
        ASSERT_EQ(found[i], inside ? values[i] * 2 + 1 : 0xeeeeeeeeu)
            << "word " << i << ", " << tiles << " tiles, " << blocks << " blocks";
      }
    }
  }
}

}  // namespace
}  // namespace rungs::ptx::test
