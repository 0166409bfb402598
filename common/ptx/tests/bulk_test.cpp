// One-dimensional bulk copies, reductions and groups, each against a host oracle, bit for bit.

#include "bulk_conformance.hpp"
#include "bulk_oracle.hpp"
#include "fixture.hpp"

#include <rungs/testing/conforms.hpp>

#include <cstdint>
#include <vector>

namespace rungs::ptx::test {
namespace {

using gpu::BulkReduction;
using gpu::TensorElement;

class BulkConformance : public Conformance {
 protected:
  static std::vector<std::uint8_t> pattern(std::size_t size, std::uint32_t salt) {
    std::vector<std::uint8_t> bytes(size);
    for (std::size_t i = 0; i < size; i++)
      bytes[i] = static_cast<std::uint8_t>(i * 7 + i / 251 + salt);
    return bytes;
  }
  void round_trip(Hint hint) {
    for (const std::uint32_t size : {16u, 48u, 4096u, kMaxBulkBytes}) {
      const std::vector<std::uint8_t> bytes = pattern(size, size);
      const auto in = upload(bytes);
      const auto out = filled<std::uint8_t>(size + 64, 0xee);
      launch_round_trip(nullptr, hint, in.data(), out.data() + 32, size);
      const std::vector<std::uint8_t> found = out.download();
      for (std::size_t i = 0; i < found.size(); i++) {
        const bool inside = i >= 32 && i < 32 + size;
        ASSERT_EQ(found[i], inside ? bytes[i - 32] : 0xee) << "byte " << i << " of " << size;
      }
    }
  }
  // Whether the combination exists.
  bool reduce(BulkReduction reduction, TensorElement type, bool cluster) {
    constexpr std::uint32_t kSize = 1024;
    const std::vector<std::uint8_t> before = reduction_operands(type, kSize, 1);
    const std::vector<std::uint8_t> x = reduction_operands(type, kSize, 2);
    const auto data = upload(before);
    const auto in = upload(x);
    const bool exists =
        cluster
            ? launch_bulk_reduce_cluster(nullptr, reduction, type, data.data(), in.data(), kSize)
            : launch_bulk_reduce(nullptr, reduction, type, data.data(), in.data(), kSize);
    if (!exists) return false;
    const std::vector<std::uint8_t> expected = reduced(reduction, type, before, x);
    const std::vector<std::uint8_t> found = data.download();
    for (std::uint32_t i = 0; i < kSize; i++) {
      EXPECT_EQ(found[i], expected[i])
          << "byte " << i << ", operation " << static_cast<int>(reduction) << ", type "
          << static_cast<int>(type) << (cluster ? ", in shared memory" : "");
      if (found[i] != expected[i]) break;
    }
    return true;
  }
  int reduce_all(bool cluster) {
    int combinations = 0;
    for (int reduction = 0; reduction < 8; reduction++) {
      for (int type = 0; type <= static_cast<int>(TensorElement::kBf16); type++) {
        if (reduce(static_cast<BulkReduction>(reduction), static_cast<TensorElement>(type),
                   cluster))
          combinations++;
      }
    }
    return combinations;
  }
};

TEST_F(BulkConformance, RoundTrip) {
  rungs::testing::conforms("bulk_load bulk_store bulk_commit bulk_wait bulk_prefetch");
  round_trip(Hint::kNone);
}

TEST_F(BulkConformance, RoundTripWithCachePolicy) {
  rungs::testing::conforms(
      "bulk_load_hint bulk_store_hint bulk_prefetch_hint createpolicy_fractional");
  round_trip(Hint::kPolicy);
}

TEST_F(BulkConformance, TwoBuffersInGroups) {
  rungs::testing::conforms("bulk_wait_read");
  for (const int chunks : {1, 2, 3, 8}) {
    const auto count = static_cast<std::size_t>(chunks) * 256;
    const auto out = filled<std::uint32_t>(count, 0xeeeeeeee);
    launch_store_pipeline(nullptr, out.data(), chunks);
    const std::vector<std::uint32_t> found = out.download();
    for (std::size_t i = 0; i < count; i++)
      ASSERT_EQ(found[i], static_cast<std::uint32_t>(i) * 2654435761u) << i << " of " << count;
  }
}

TEST_F(BulkConformance, Multicast) {
  rungs::testing::conforms("bulk_load_multicast bulk_load_multicast_hint");
  for (const std::uint32_t size : {32u, 2048u, kMaxBulkBytes}) {
    const std::vector<std::uint8_t> bytes = pattern(size, 3);
    const auto in = upload(bytes);
    const auto out = filled<std::uint8_t>(std::size_t{2} * size, 0xee);
    launch_bulk_multicast(nullptr, in.data(), out.data(), size);
    const std::vector<std::uint8_t> found = out.download();
    for (std::size_t i = 0; i < found.size(); i++) ASSERT_EQ(found[i], bytes[i % size]) << i;
  }
}

TEST_F(BulkConformance, LoadsIntoTheOtherBlock) {
  rungs::testing::conforms("bulk_load_cluster");
  for (const std::uint32_t size : {16u, 2064u, kMaxBulkBytes}) {
    const std::vector<std::uint8_t> bytes = pattern(std::size_t{2} * size, 9);
    const auto in = upload(bytes);
    const auto out = filled<std::uint8_t>(std::size_t{2} * size, 0xee);
    launch_cross_load(nullptr, in.data(), out.data(), size);
    const std::vector<std::uint8_t> found = out.download();
    for (std::size_t i = 0; i < found.size(); i++)
      ASSERT_EQ(found[i], bytes[i < size ? i + size : i - size]) << i << " of size " << size;
  }
}

TEST_F(BulkConformance, BetweenSharedMemories) {
  rungs::testing::conforms("bulk_copy_cluster map_shared");
  for (const std::uint32_t size : {16u, 2064u, kMaxBulkBytes}) {
    const std::vector<std::uint8_t> bytes = pattern(std::size_t{2} * size, 5);
    const auto in = upload(bytes);
    const auto out = filled<std::uint8_t>(std::size_t{2} * size, 0xee);
    launch_exchange(nullptr, in.data(), out.data(), size);
    const std::vector<std::uint8_t> found = out.download();
    for (std::size_t i = 0; i < found.size(); i++)
      ASSERT_EQ(found[i], bytes[i < size ? i + size : i - size]) << i << " of size " << size;
  }
}

TEST_F(BulkConformance, EveryReduction) {
  rungs::testing::conforms("bulk_reduce");
  // add: 7 types; min and max: 6; inc, dec: 1; and, or, xor: 2 widths, signed and not.
  EXPECT_EQ(reduce_all(false), 7 + 2 * 6 + 2 + 3 * 4);
}

TEST_F(BulkConformance, SumWithCachePolicy) {
  rungs::testing::conforms("bulk_reduce_hint createpolicy_fractional");
  constexpr std::uint32_t kSize = 4096;
  const std::vector<std::uint8_t> before = reduction_operands(TensorElement::kU32, kSize, 3);
  const std::vector<std::uint8_t> x = reduction_operands(TensorElement::kU32, kSize, 4);
  const auto data = upload(before);
  const auto in = upload(x);
  launch_bulk_add(nullptr, data.data(), in.data(), kSize);
  EXPECT_EQ(data.download(), reduced(BulkReduction::kAdd, TensorElement::kU32, before, x));
}

TEST_F(BulkConformance, EveryReductionInSharedMemory) {
  rungs::testing::conforms("bulk_reduce_cluster");
  EXPECT_EQ(reduce_all(true), 3 + 2 * 2 + 2 + 3 * 2);
}

}  // namespace
}  // namespace rungs::ptx::test
