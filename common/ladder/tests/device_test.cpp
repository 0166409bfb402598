#include "kernels.hpp"

#include <rungs/gpu/buffer.hpp>
#include <rungs/ladder/build.hpp>
#include <rungs/testing/gpu_test.hpp>
#include <rungs/testing/poison.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace rungs::ladder {
namespace {

// Operations on a device: rungs copy `from` to `to` on a stream.
struct CopyArgs {
  const float* from = nullptr;
  float* to = nullptr;
  std::size_t count = 0;
};
class Copy final : public Prepared {
 public:
  Copy(const CopyArgs& args, std::size_t pieces) : args_(args), pieces_(pieces) {}
  void operator()(gpu::StreamHandle stream) override {
    const std::size_t piece = args_.count / pieces_;
    for (std::size_t i = 0; i < pieces_; ++i) {
      gpu::copy_async(args_.to + i * piece, args_.from + i * piece, piece * sizeof(float), stream);
    }
  }

 private:
  CopyArgs args_;
  std::size_t pieces_;
};
Support any_copy(const CopyArgs&, const Machine&) { return {}; }
std::unique_ptr<Prepared> in_pieces(const CopyArgs& args, const Machine&) {
  return std::make_unique<Copy>(args, 4);
}
std::unique_ptr<Prepared> whole(const CopyArgs& args, const Machine&) {
  return std::make_unique<Copy>(args, 1);
}
std::unique_ptr<Prepared> half(const CopyArgs& args, const Machine&) {
  return std::make_unique<Copy>(CopyArgs{args.from, args.to, args.count / 2}, 1);
}
// Copies, then enqueues a kernel that never ends. Emulated devices find that out by themselves.
class CopyThenHang final : public Prepared {
 public:
  explicit CopyThenHang(const CopyArgs& args) : copy_(args, 1) {}
  void operator()(gpu::StreamHandle stream) override {
    copy_(stream);
    test::launch_hang(stream);
  }

 private:
  Copy copy_;
};
std::unique_ptr<Prepared> hang(const CopyArgs& args, const Machine&) {
  return std::make_unique<CopyThenHang>(args);
}
Support on_emulator(const CopyArgs&, const Machine& machine) {
  return {machine.device->info().emulated, "a GPU would hang for good"};
}
constexpr std::array<Rung<CopyArgs>, 4> kCopies{{{"pieces", "", &any_copy, &in_pieces},
                                                 {"whole", "", &any_copy, &whole},
                                                 {"half", "", &any_copy, &half},
                                                 {"hang", "", &on_emulator, &hang}}};

class CopyProblem final : public Problem<CopyArgs> {
 public:
  CopyProblem(const gpu::Device& device, std::uint64_t seed)
      : from_(device, kCount),
        to_(device, kCount) {
    for (std::size_t i = 0; i < kCount; ++i) values_.push_back(static_cast<float>(i + seed % 7));
    from_.upload(values_);
  }
  CopyArgs args() override { return {from_.data(), to_.data(), kCount}; }
  void reset() override { testing::poison(to_); }
  std::vector<float> output() override { return to_.download(); }
  Reference reference() override { return {{values_.begin(), values_.end()}, {}}; }
  double bound(std::size_t) override { return 0; }

 private:
  static constexpr std::size_t kCount = 1024;
  std::vector<float> values_;
  gpu::Buffer<float> from_, to_;
};

Operation make_copy() {
  OperationSpec<CopyArgs> spec;
  spec.name = "copy";
  spec.cases = {{"1024", {0, 1e8, 0, 0}, true, true, false}};  // on a GPU: goes round four sets
  spec.make_problem = [](std::size_t, const Machine& m, std::uint64_t seed) {
    return std::make_unique<CopyProblem>(*m.device, seed);
  };
  return make_operation(kCopies, std::move(spec));
}

TEST(BuildOnDevice, RunsChecksAndTimes) {
  RUNGS_NEEDS_DEVICE();
  const gpu::Device device = gpu::Device::open(0);
  const Machine machine{&device, 1};
  const Operation operation = make_copy();
  for (const std::size_t rung : {0u, 1u}) {
    const Outcome outcome = operation.run(rung, 0, machine, 3);
    EXPECT_TRUE(outcome.checked) << outcome.note;
    ASSERT_EQ(outcome.seconds.size(), 3u) << outcome.note;
    for (const double seconds : outcome.seconds)
      EXPECT_TRUE(std::isfinite(seconds) && seconds >= 0) << seconds;
  }
  const Outcome half = operation.run(2, 0, machine, 3);
  EXPECT_FALSE(half.checked);
  EXPECT_EQ(half.note.find("element 512: got"), 0u) << half.note;
}

// A run is three launches.
class Launching final : public Trial {
 public:
  explicit Launching(const gpu::Device& device) : word_(device, 1) {}
  [[nodiscard]] const Outcome& outcome() const noexcept override { return outcome_; }
  double time_once() override {
    for (int i = 0; i < kLaunches; ++i) test::launch_set(nullptr, word_.data(), i);
    return 0;
  }
  static constexpr int kLaunches = 3;

 private:
  Outcome outcome_;
  gpu::Buffer<int> word_;
};

TEST(BuildOnDevice, CountsTheWorkOfOneRun) {
  RUNGS_NEEDS_DEVICE();
  const gpu::Device device = gpu::Device::open(0);
  Launching trial(device);
  trial.time_once();  // still under way when the count begins
  EXPECT_EQ(count_one_run(trial, device).launches, std::uint64_t{Launching::kLaunches});
}

TEST(BuildOnDevice, AKernelThatFailsDoesNotFailTheNextRung) {
  RUNGS_NEEDS_DEVICE();
  const gpu::Device device = gpu::Device::open(0);
  const Machine machine{&device, 1};
  const Operation operation = make_copy();
  const Support support = operation.supports(3, 0, machine);
  if (!support.ok) return testing::skip(testing::Lack::kEmulator, std::string(support.reason));
  const Outcome outcome = operation.run(3, 0, machine, 3);
  EXPECT_FALSE(outcome.checked);
  EXPECT_NE(outcome.note.find("hang_kernel"), std::string::npos) << outcome.note;
  EXPECT_TRUE(outcome.seconds.empty());
  EXPECT_TRUE(operation.run(1, 0, machine, 1).checked);
}

TEST(Rotation, OnlyGpusRotate) {
  EXPECT_EQ(rotation_sets(1e6, Machine{}), 1);
  if (!testing::why_no_device().empty()) return;
  const gpu::Device device = gpu::Device::open(0);
  const Machine machine{&device, 1};
  const bool emulated = device.info().emulated;
  EXPECT_EQ(rotation_sets(100e6, machine), emulated ? 1 : 4);
  EXPECT_EQ(rotation_sets(1e12, machine), emulated ? 1 : 2);
  EXPECT_EQ(rotation_sets(0, machine), emulated ? 1 : 64);
}

}  // namespace
}  // namespace rungs::ladder
