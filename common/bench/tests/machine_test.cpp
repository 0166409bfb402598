#include <rungs/bench/machine.hpp>
#include <rungs/testing/gpu_test.hpp>

#include <gtest/gtest.h>

#include <cmath>

namespace rungs::bench {
namespace {

TEST(MachineFacts, SayCpuAndGpu) {
  const MachineFacts facts = machine_facts();
  EXPECT_FALSE(facts.cpu.empty());
  EXPECT_GE(facts.cores, 1);
  EXPECT_GT(facts.memory_bytes, std::size_t{1} << 20);
  EXPECT_NE(facts.gpu.has_value(), !facts.no_gpu_reason.empty())
      << "a GPU or the reason why there is none";
  const std::vector<std::string> lines = describe(facts);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NE(lines[0].find(facts.cpu), std::string::npos);
}

TEST(MachineFacts, DescriptionOfAGpuAndOfNone) {
  MachineFacts facts;
  facts.cpu = "Test CPU";
  facts.cores = 1;
  facts.memory_bytes = 16000000000;
  facts.no_gpu_reason = "it is a laptop";
  EXPECT_EQ(describe(facts), (std::vector<std::string>{"CPU   Test CPU, 1 core, 16.0 GB",
                                                       "GPU   none: it is a laptop"}));
  gpu::DeviceInfo info;
  info.name = "NVIDIA H200";
  info.sm_count = 132;
  info.compute_major = 9;
  info.l2_bytes = 60000000;
  facts.gpu = info;
  EXPECT_EQ(describe(facts)[1], "GPU   NVIDIA H200, 132 SMs, compute capability 9.0, L2 60.0 MB");
}

TEST(Roof, CopiesAreMeasured) {
  const double host = measure_host_copy();
  EXPECT_TRUE(std::isfinite(host) && host > 0) << host;
  RUNGS_NEEDS_DEVICE();
  const double device = measure_device_copy(gpu::Device::open(0));
  EXPECT_TRUE(std::isfinite(device) && device > 0) << device;
}

}  // namespace
}  // namespace rungs::bench
