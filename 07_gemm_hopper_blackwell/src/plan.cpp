/// Which rung serves a call, and why another cannot.

#include <rungs/gemm/gemm.hpp>

#include "detail/problem.hpp"

#include <rungs/core/error.hpp>

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace rungs::gemm {
namespace detail {
namespace {

constexpr std::uintptr_t kTmaAlignment = 16;  // bytes, of base and pitch (PTX ISA, "Tensor-map")
constexpr std::int64_t kTmaPitchLimit = std::int64_t{1} << 40;  // bytes

/// TMA's rules for one operand; `base` and `pitch` say which rule is broken.
ladder::Support tma_accepts(const Operand& operand, std::int64_t lines, std::string_view base,
                            std::string_view pitch) {
  if (reinterpret_cast<std::uintptr_t>(operand.data) % kTmaAlignment != 0) return {false, base};
  const std::int64_t pitch_bytes = operand.pitch() * static_cast<std::int64_t>(sizeof(bf16));
  if (lines > 1 && (pitch_bytes % static_cast<std::int64_t>(kTmaAlignment) != 0 ||
                    pitch_bytes >= kTmaPitchLimit)) {
    return {false, pitch};
  }
  return {};
}

std::int64_t lines_of(const Operand& operand, std::int64_t extent, std::int64_t depth) {
  return operand.major == Major::kDepth ? extent : depth;
}

}  // namespace

ladder::Support supports_any(const Args&, const ladder::Machine&) { return {}; }

ladder::Support supports_sm90_tma(const Args& args, const ladder::Machine& machine) {
  const gpu::DeviceInfo& info = machine.device->info();
  if (info.compute_major != 9 || info.compute_minor != 0) {
    return {false, "wgmma exists on Hopper only (compute capability 9.0) and this GPU is another"};
  }
  const Problem problem = checked(args);
  if (problem.m == 0 || problem.n == 0 || problem.k == 0) return {};  // nothing goes through TMA
  const ladder::Support a =
      tma_accepts(problem.a, lines_of(problem.a, problem.m, problem.k),
                  "a.data is not a multiple of 16 bytes, which TMA needs",
                  "the stride between contiguous lines of a is not a multiple of 8 elements "
                  "(16 bytes) below 2^39, which TMA needs");
  if (!a.ok) return a;
  return tma_accepts(
      problem.b, lines_of(problem.b, problem.n, problem.k),
      "b.data is not a multiple of 16 bytes, which TMA needs",
      "the stride between contiguous lines of b is not a multiple of 8 elements (16 bytes) below "
      "2^39, which TMA needs");
}

}  // namespace detail

Plan::Plan(const Args& args, const gpu::Device& device) {
  const ladder::Machine machine{&device, 1};
  (void)detail::checked(
      args);  // before any rung is asked: a wrong call has one error, not a fallback
  // Ladders go from simple to fast; the naive rung supports every call.
  const auto rung = std::find_if(kLadder.rbegin(), kLadder.rend(), [&](const auto& candidate) {
    return candidate.supports(args, machine).ok;
  });
  if (rung == kLadder.rend()) RUNGS_THROW(kInternal, "gemm: no rung supports this call");
  rung_ = rung->name;
  prepared_ = rung->prepare(args, machine);
}

void Plan::run(gpu::StreamHandle stream) const { (*prepared_)(stream); }

void multiply(const Args& args, gpu::StreamHandle stream) {
  Plan(args, gpu::Device::current()).run(stream);
}

}  // namespace rungs::gemm
