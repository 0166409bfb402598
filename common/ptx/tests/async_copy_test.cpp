#include "fixture.hpp"
#include "warp_conformance.hpp"

#include <rungs/testing/conforms.hpp>

#include <cstdint>
#include <vector>

namespace rungs::ptx::test {
namespace {

class AsyncCopyConformance : public Conformance {
 protected:
  void check(int how) {
    for (int k = 0; k < 8; k++) {
      const auto kind = static_cast<CopyKind>(k);
      const bool fill = kind >= CopyKind::kCa4Fill;
      const unsigned bytes = copy_bytes(kind);
      std::vector<std::uint8_t> in(kCopyStages * kCopyThreads * bytes);
      for (std::size_t i = 0; i < in.size(); i++)
        in[i] = static_cast<std::uint8_t>(i * 11 + i / 256 + 1);
      const auto source = upload(in);
      const auto out = filled<std::uint8_t>(in.size(), 0xee);
      launch_async_copy(nullptr, kind, how, source.data(), out.data());
      std::vector<std::uint8_t> expected = in;
      for (unsigned s = 0; s < kCopyStages && fill; s++) {
        for (unsigned t = 0; t < kCopyThreads; t++) {
          for (unsigned i = fill_bytes(t, s, bytes); i < bytes; i++)
            expected[(s * kCopyThreads + t) * bytes + i] = 0;
        }
      }
      EXPECT_EQ(out.download(), expected) << "kind " << k << ", how " << how;
    }
  }
};

TEST_F(AsyncCopyConformance, Groups) {
  testing::conforms(
      "cp_async_ca cp_async_ca_zero_fill cp_async_cg cp_async_cg_zero_fill cp_async_commit_group "
      "cp_async_wait_group");
  check(0);
}
TEST_F(AsyncCopyConformance, WaitAll) {
  testing::conforms("cp_async_wait_all");
  check(1);
}
TEST_F(AsyncCopyConformance, ArrivesAtBarrier) {
  testing::conforms("cp_async_mbarrier_arrive_noinc cp_async_mbarrier_arrive");
  check(2);
  check(3);
}

}  // namespace
}  // namespace rungs::ptx::test
