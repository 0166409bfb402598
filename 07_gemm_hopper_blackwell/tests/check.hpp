#pragma once
/// @file check.hpp
/// Runs one rung on one product and judges every element; what tests that need a device derive
/// from.

#include <rungs/core/error.hpp>
#include <rungs/gemm/gemm.hpp>
#include <rungs/gpu/device.hpp>
#include <rungs/gpu/stream.hpp>
#include <rungs/ladder/rung.hpp>
#include <rungs/testing/gpu_test.hpp>

#include "catalog/gemm_problem.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace rungs::gemm {

/// Empty, or the first element that is wrong or should not have been written.
inline std::string judge(GemmProblem& problem) {
  const std::vector<float> got = problem.output();
  const ladder::Reference want = problem.reference();
  for (std::size_t i = 0; i < want.values.size(); ++i) {
    const std::size_t element = want.positions.empty() ? i : want.positions[i];
    const double error = std::abs(static_cast<double>(got[element]) - want.values[i]);
    const double bound = problem.bound(element);
    if (error <= bound) continue;  // NaN is not <= anything
    return concat(problem.describe(element), ": got ", got[element], ", want ", want.values[i],
                  ", error ", error, ", allowed ", bound);
  }
  return problem.stray_write();
}

/// Runs `rung` on a product made from `shape` and judges it. A rung that does not support it is an
/// error.
inline std::string check(const ladder::Rung<Args>& rung, const GemmShape& shape,
                         const gpu::Device& device, std::uint64_t seed = 1) {
  const ladder::Machine machine{&device, 1};
  GemmProblem problem(shape, device, seed);
  const ladder::Support support = rung.supports(problem.args(), machine);
  if (!support.ok)
    return concat(rung.name, " does not support ", to_string(shape), ": ", support.reason);
  const auto prepared = rung.prepare(problem.args(), machine);
  problem.reset();
  (*prepared)(nullptr);
  gpu::synchronize(nullptr);
  const std::string verdict = judge(problem);
  return verdict.empty() ? verdict : concat(rung.name, ": ", verdict);
}

/// Opens device 0 for `Base`, a GoogleTest fixture, or skips with the reason why there is none.
template <class Base>
class OnDevice : public Base {
 protected:
  void SetUp() override {
    RUNGS_NEEDS_DEVICE();
    device_ = gpu::Device::open(0);
  }
  /// For fixtures of one rung: skips when this GPU cannot run it at all.
  void needs_rung(const ladder::Rung<Args>& rung) {
    OnDevice::SetUp();
    if (!device_) return;
    GemmShape smallest;
    smallest.m = smallest.n = smallest.k = 8;
    GemmProblem problem(smallest, *device_, 1);
    const ladder::Support support = rung.supports(problem.args(), ladder::Machine{&*device_, 1});
    if (!support.ok) testing::skip(testing::Lack::kGpu, concat(rung.name, ": ", support.reason));
  }
  [[nodiscard]] const gpu::Device& device() const { return *device_; }
  [[nodiscard]] bool has_device() const { return device_.has_value(); }

 private:
  std::optional<gpu::Device> device_;
};

}  // namespace rungs::gemm
