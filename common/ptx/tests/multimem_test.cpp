// Multicast objects and multimem on emulated devices. No conformance: never run on hardware.

#include "fixture.hpp"

#include <rungs/core/error.hpp>
#include <rungs/gpu/kernel.hpp>
#include <rungs/gpu/multicast.hpp>
#include <rungs/ptx/fence.hpp>
#include <rungs/ptx/memory.hpp>
#include <rungs/ptx/multimem.hpp>
#include <rungs/ptx/sync.hpp>
#include <rungs/testing/errors.hpp>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace rungs::ptx::test {
namespace {

constexpr unsigned kWords = 512;
constexpr unsigned kArrivals = kWords;  // one more word: who has come

// arrivals · every device adds 1 on all devices · each waits on its own memory · reset by the host
RUNGS_DEVICE void meet(std::uint32_t* multicast, const std::uint32_t* mine, std::uint32_t all) {
  syncthreads();
  if (threadIdx.x == 0) {
    multimem_red_add<Order::kRelease>(&multicast[kArrivals], 1u);
    fence_proxy_alias();
    while (ld_acquire_sys(&mine[kArrivals]) < all) {
    }
  }
  syncthreads();
}

// All-reduce of floats in one shot: each device reduces its share and stores it to all.
RUNGS_KERNEL(64)
all_reduce_kernel(std::uint32_t* multicast, std::uint32_t* mine, unsigned rank, unsigned ranks) {
  meet(multicast, mine, ranks);
  auto* lines = reinterpret_cast<Vector4<float>*>(multicast);
  const unsigned share = kWords / 4 / ranks;
  for (unsigned i = threadIdx.x; i < share; i += 64) {
    Vector4<float>* line = &lines[rank * share + i];
    multimem_st_v4(line, multimem_ld_reduce_add_v4(line));
  }
  meet(multicast, mine, 2 * ranks);
}

// Every operation on words of one type each; one thread of every device.
RUNGS_KERNEL(32)
operations_kernel(std::uint32_t* multicast, std::uint32_t* mine, std::uint32_t* out, unsigned rank,
                  unsigned ranks) {
  if (threadIdx.x == 0) {
    multimem_red_add(&multicast[0], rank + 1);
    multimem_red_min(reinterpret_cast<std::int32_t*>(&multicast[1]),
                     -static_cast<std::int32_t>(rank));
    multimem_red_max(&multicast[2], rank * 10);
    multimem_red_and(&multicast[3], ~(1u << rank));
    multimem_red_or(&multicast[4], 1u << rank);
    multimem_red_xor(&multicast[5], 5u << rank);
    multimem_red_add(reinterpret_cast<std::uint64_t*>(&multicast[6]), std::uint64_t{1} << 40);
    multimem_red_add(reinterpret_cast<float*>(&multicast[8]), 0.5f);
    multimem_red_add(reinterpret_cast<double*>(&multicast[10]), 0.25);
    multimem_red_add(reinterpret_cast<F16x2*>(&multicast[12]), F16x2{0x3c003800});    // 0.5, 1
    multimem_red_add(reinterpret_cast<Bf16x2*>(&multicast[13]), Bf16x2{0x40003f80});  // 1, 2
    if (rank == 0) multimem_st<Order::kRelease>(&multicast[14], 77u);
  }
  meet(multicast, mine, ranks);
  if (threadIdx.x == 0) {
    out[0] = multimem_ld_reduce_add(&multicast[0]);
    out[1] = multimem_ld_reduce_min<Order::kAcquire>(&multicast[16]);
    out[2] = multimem_ld_reduce_max(&multicast[16]);
    out[3] = multimem_ld_reduce_and(&multicast[17]);
    out[4] = multimem_ld_reduce_or(&multicast[18]);
    out[5] = multimem_ld_reduce_xor(&multicast[19]);
    out[6] = multimem_ld_reduce_add(reinterpret_cast<const F16x2*>(&multicast[20])).bits;
    out[7] = multimem_ld_reduce_add(reinterpret_cast<const Bf16x2*>(&multicast[21])).bits;
    const double sum = multimem_ld_reduce_add(reinterpret_cast<const double*>(&multicast[10]));
    out[8] = static_cast<std::uint32_t>(sum * 4);
    const float real = multimem_ld_reduce_add(reinterpret_cast<const float*>(&multicast[8]));
    out[9] = static_cast<std::uint32_t>(real * 2);
  }
}

RUNGS_KERNEL(32) misuse_kernel(std::uint32_t* address) { multimem_st(address, 1u); }

class Multimem : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    RUNGS_NEEDS_DEVICE();
    for (int i = 0; i < GetParam(); i++) {
      devices_.push_back(gpu::Device::open(i));
      buffers_.emplace_back(devices_.back(), kWords + 4, gpu::Space::kShared);
      outs_.emplace_back(devices_.back(), 16);
      streams_.emplace_back(devices_.back());
    }
    for (const gpu::Device& one : devices_) {
      for (const gpu::Device& other : devices_) {
        if (one.ordinal() != other.ordinal()) one.enable_peer_access(other);
      }
    }
    multicast_ = std::make_unique<gpu::Multicast>(devices_, (kWords + 4) * sizeof(std::uint32_t));
  }
  void bind_all() {
    for (std::size_t i = 0; i < devices_.size(); i++)
      multicast_->bind(devices_[i], buffers_[i].data());
  }
  [[nodiscard]] std::uint32_t* words() const {
    return static_cast<std::uint32_t*>(multicast_->data());
  }
  std::vector<gpu::Device> devices_;
  std::vector<gpu::Buffer<std::uint32_t>> buffers_, outs_;
  std::vector<gpu::Stream> streams_;
  std::unique_ptr<gpu::Multicast> multicast_;
};

TEST_P(Multimem, AllReduce) {
  bind_all();
  const auto ranks = static_cast<unsigned>(devices_.size());
  std::vector<double> expected(kWords, 0);
  std::vector<double> sizes(kWords, 0);
  for (unsigned r = 0; r < ranks; r++) {
    std::vector<std::uint32_t> words(kWords + 4, 0);
    for (unsigned i = 0; i < kWords; i++) {
      const float value = 0.1f * static_cast<float>(i) - 7.3f * static_cast<float>(r);
      std::memcpy(&words[i], &value, sizeof(value));
      expected[i] += static_cast<double>(value);
      sizes[i] += std::fabs(static_cast<double>(value));
    }
    buffers_[r].upload(words);
  }
  for (unsigned r = 0; r < ranks; r++) {
    gpu::LaunchConfig config{.grid = {1}, .block = {64}};
    config.cooperative = true;
    gpu::launch("multimem_all_reduce", config, streams_[r], all_reduce_kernel, words(),
                buffers_[r].data(), r, ranks);
  }
  for (const gpu::Stream& stream : streams_) stream.synchronize();
  const std::vector<std::uint32_t> first = buffers_[0].download();
  for (unsigned r = 0; r < ranks; r++) {
    const std::vector<std::uint32_t> words = buffers_[r].download();
    EXPECT_EQ(words, first) << r;
    for (unsigned i = 0; i < kWords; i++) {
      float value;
      std::memcpy(&value, &words[i], sizeof(value));
      // ranks - 1 additions in float, in any order.
      EXPECT_LE(std::fabs(static_cast<double>(value) - expected[i]), ranks * 0x1p-24 * sizes[i]);
    }
  }
}

TEST_P(Multimem, Operations) {
  bind_all();
  const auto ranks = static_cast<unsigned>(devices_.size());
  for (unsigned r = 0; r < ranks; r++) {
    std::vector<std::uint32_t> words(kWords + 4, 0);
    words[1] = 100;
    words[3] = ~0u;
    words[16] = 40 + r;
    words[17] = ~(3u << r);
    words[18] = 3u << r;
    words[19] = 9u << r;
    words[20] = 0x3c003400;  // 0.25, 1
    words[21] = 0x40003f00;  // 0.5, 2
    buffers_[r].upload(words);
    outs_[r].upload(std::vector<std::uint32_t>(16, 0xdead));
  }
  for (unsigned r = 0; r < ranks; r++) {
    gpu::LaunchConfig config{.grid = {1}, .block = {32}};
    config.cooperative = true;
    gpu::launch("multimem_operations", config, streams_[r], operations_kernel, words(),
                buffers_[r].data(), outs_[r].data(), r, ranks);
  }
  for (const gpu::Stream& stream : streams_) stream.synchronize();
  std::uint32_t sum = 0, band = ~0u, bor = 0, bxor = 0, and17 = ~0u, or18 = 0, xor19 = 0;
  for (std::uint32_t r = 0; r < ranks; r++) {
    sum += r + 1;
    band &= ~(1u << r);
    bor |= 1u << r;
    bxor ^= 5u << r;
    and17 &= ~(3u << r);
    or18 |= 3u << r;
    xor19 ^= 9u << r;
  }
  const auto real = static_cast<float>(ranks);
  const auto half = [](float value) {  // exact: small multiples of 1/4
    int exponent = 0;
    const float fraction = std::frexp(value, &exponent);
    return static_cast<std::uint32_t>(exponent + 14) << 10 |
           (static_cast<std::uint32_t>(fraction * 2048) & 1023);
  };
  const auto brain = [](float value) { return std::uint32_t{to_bf16(value).bits}; };
  for (unsigned r = 0; r < ranks; r++) {
    const std::vector<std::uint32_t> words = buffers_[r].download();
    float single;
    double wide;
    std::memcpy(&single, &words[8], sizeof(single));
    std::memcpy(&wide, &words[10], sizeof(wide));
    EXPECT_EQ(words[0], sum);
    EXPECT_EQ(static_cast<std::int32_t>(words[1]), 1 - static_cast<std::int32_t>(ranks));
    EXPECT_EQ(words[2], (ranks - 1) * 10);
    EXPECT_EQ(words[3], band);
    EXPECT_EQ(words[4], bor);
    EXPECT_EQ(words[5], bxor);
    EXPECT_EQ(words[7], ranks << 8);
    EXPECT_EQ(single, 0.5f * real);
    EXPECT_EQ(wide, 0.25 * ranks);
    EXPECT_EQ(words[12], half(0.5f * real) | half(real) << 16);
    EXPECT_EQ(words[13], brain(real) | brain(2 * real) << 16);
    EXPECT_EQ(words[14], 77u);
    const std::vector<std::uint32_t> expected{sum * ranks,
                                              40,
                                              39 + ranks,
                                              and17,
                                              or18,
                                              xor19,
                                              half(0.25f * real) | half(real) << 16,
                                              brain(0.5f * real) | brain(2 * real) << 16,
                                              ranks * ranks,
                                              ranks * ranks};
    std::vector<std::uint32_t> out = outs_[r].download();
    out.resize(10);
    EXPECT_EQ(out, expected) << r;
  }
}

TEST_P(Multimem, MisuseIsReported) {
  const auto report_of = [&](std::uint32_t* address) {
    gpu::launch("multimem_misuse", {.grid = {1}, .block = {32}}, streams_[0], misuse_kernel,
                address);
    std::string report = testing::error_of([&] { streams_[0].synchronize(); });
    gpu::detail::reset_error_for_tests(devices_[0]);
    return report;
  };
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << "no \"" << part << "\" in: " << text;
  };
  multicast_->bind(devices_[0], buffers_[0].data());
  has(report_of(words()), "have no memory bound");
  has(testing::error_of([&] { multicast_->bind(devices_[0], buffers_[0].data()); }), "already");
  has(testing::error_of([&] { multicast_->bind(devices_[1], buffers_[0].data()); }),
      "is not memory of device 1");
  has(testing::error_of([&] { multicast_->bind(devices_[1], buffers_[1].data() + 4); }),
      "to the buffer's end");
  for (std::size_t i = 1; i < devices_.size(); i++)
    multicast_->bind(devices_[i], buffers_[i].data());
  has(report_of(buffers_[0].data()), "is in no multicast object");
  has(report_of(words() + kWords + 4), "is in no multicast object");
  has(report_of(reinterpret_cast<std::uint32_t*>(reinterpret_cast<char*>(words()) + 2)),
      "is not 4-byte aligned");
}

INSTANTIATE_TEST_SUITE_P(Devices, Multimem, ::testing::Values(2, 4));

}  // namespace
}  // namespace rungs::ptx::test
