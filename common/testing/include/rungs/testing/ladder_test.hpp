#pragma once
/// @file ladder_test.hpp
/// One test for every rung and case of a stage's operations:
///
///     RUNGS_LADDER_TEST(GemmLadder, rungs::gemm::operations());
///
/// makes GemmLadder.Checked/gemm_bf16_tma_wgmma_64x64x64 and so on. Each expects that the rung's
/// output was checked.

#include <rungs/ladder/operation.hpp>
#include <rungs/testing/gpu_test.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace rungs::testing {

/// One rung on one case.
struct LadderStep {
  std::shared_ptr<const ladder::Operation> operation;
  std::size_t rung = 0;
  std::size_t case_index = 0;
  /// Letters, digits and underscores only, as GoogleTest wants names.
  [[nodiscard]] std::string name() const {
    std::string text = operation->name + "_" + operation->rungs[rung].name + "_" +
                       operation->cases[case_index].name;
    for (char& c : text) {
      if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
    }
    return text;
  }
};
inline void PrintTo(const LadderStep& step, std::ostream* out) { *out << step.name(); }

/// Every rung of every case, case by case. Cases for GPUs only are left out of emulated builds.
inline std::vector<LadderStep> ladder_steps(std::vector<ladder::Operation> operations) {
  std::vector<LadderStep> steps;
  for (ladder::Operation& given : operations) {
    const auto operation = std::make_shared<const ladder::Operation>(std::move(given));
    for (std::size_t c = 0; c < operation->cases.size(); ++c) {
      if (operation->cases[c].gpu_only && RUNGS_GPU_CUDA == 0) continue;
      for (std::size_t rung = 0; rung < operation->rungs.size(); ++rung)
        steps.push_back({operation, rung, c});
    }
  }
  return steps;
}

/// Under ThreadSanitizer, which takes ten times as long or more, an operation's cases that move
/// more than 2 MiB in all are left out, but never its smallest: a race between ranks needs another
/// turn of the slots and flags, which tests of the stage play on purpose, and not more bytes.
inline std::vector<LadderStep> affordable(std::vector<LadderStep> steps) {
#if defined(RUNGS_SANITIZE_THREAD)
  constexpr double kMost = 2 << 20;
  const auto bytes = [](const ladder::Case& one) { return one.cost.bytes + one.cost.wire_bytes; };
  std::erase_if(steps, [&](const LadderStep& step) {
    const std::vector<ladder::Case>& cases = step.operation->cases;
    const double own = bytes(cases[step.case_index]);
    return own > kMost && std::any_of(cases.begin(), cases.end(), [&](const ladder::Case& other) {
             return bytes(other) < own;
           });
  });
#endif
  return steps;
}

/// Runs the step on device 0. A rung that does not support the call is skipped with its reason;
/// with RUNGS_REQUIRE_GPU=1 that is a failure, so a catalog holds no case that one of its rungs
/// never takes.
inline void expect_checked(const LadderStep& step) {
  RUNGS_NEEDS_DEVICE();
  const gpu::Device device = gpu::Device::open(0);
  const ladder::Machine machine{&device, 1};
  const ladder::Support support = step.operation->supports(step.rung, step.case_index, machine);
  if (!support.ok) return skip(Lack::kGpu, concat(step.name(), ": ", support.reason));
  const ladder::Outcome outcome = step.operation->run(step.rung, step.case_index, machine, 0);
  EXPECT_TRUE(outcome.checked) << step.name() << ": " << outcome.note << "\nlargest error is "
                               << outcome.error << " of its bound: " << step.operation->error_bound;
}

}  // namespace rungs::testing

/// Instantiates the tests. `operations` is evaluated when tests are listed: it must not touch the
/// device.
#define RUNGS_LADDER_TEST(Suite, operations)                                      \
  class Suite : public ::testing::TestWithParam<::rungs::testing::LadderStep> {}; \
  TEST_P(Suite, Checked) { ::rungs::testing::expect_checked(GetParam()); }        \
  INSTANTIATE_TEST_SUITE_P(, Suite,                                               \
                           ::testing::ValuesIn(::rungs::testing::affordable(      \
                               ::rungs::testing::ladder_steps(operations))),      \
                           [](const auto& tested) { return tested.param.name(); })
