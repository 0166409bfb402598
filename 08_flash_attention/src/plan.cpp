#include "detail/prepare.hpp"

#include <rungs/attention/attention.hpp>
#include <rungs/core/error.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace rungs::attention {
namespace {

/// Prepares with the last rung that supports the call: ladders go from simple to fast. The caller
/// has checked the arguments.
template <class Args, std::size_t N>
std::unique_ptr<ladder::Prepared> prepare_fastest(const std::array<ladder::Rung<Args>, N>& ladder,
                                                  const Args& args, const gpu::Device& device,
                                                  std::string_view& chosen) {
  const ladder::Machine machine{&device, 1};
  const auto rung = std::find_if(ladder.rbegin(), ladder.rend(), [&](const auto& candidate) {
    return candidate.supports(args, machine).ok;
  });
  if (rung == ladder.rend()) {
    RUNGS_THROW(kUnsupported, "attention: no rung takes this call: ",
                ladder.back().supports(args, machine).reason, "; but ",
                ladder.front().supports(args, machine).reason);
  }
  chosen = rung->name;
  return rung->prepare(args, machine);
}

}  // namespace

namespace detail {

namespace {

ladder::Support materialised_supports(const ConstTensor<4>& q, const ConstTensor<4>& k) {
  // In double: the arguments may be anything.
  auto scores = static_cast<double>(k.shape[1]);
  for (std::size_t i = 0; i < 3; ++i) scores *= static_cast<double>(q.shape[i]);
  if (!(scores > 0x1p40)) return {};
  return {false, "the materialised rung would need terabytes for S"};
}

ladder::Support tiled_supports(const ConstTensor<4>& q) {
  constexpr std::array<std::int64_t, 4> kHeadDims{16, 32, 64, 128};
  if (std::find(kHeadDims.begin(), kHeadDims.end(), q.shape[3]) != kHeadDims.end()) return {};
  return {false,
          "the tiled rung is compiled for head_dim 16, 32, 64 and 128; the materialised rung takes "
          "any"};
}

}  // namespace

ladder::Support forward_supports(const ForwardArgs& args, const ladder::Machine&) {
  return materialised_supports(args.q, args.k);
}
ladder::Support backward_supports(const BackwardArgs& args, const ladder::Machine&) {
  return materialised_supports(args.q, args.k);
}
ladder::Support forward_tiled_supports(const ForwardArgs& args, const ladder::Machine&) {
  return tiled_supports(args.q);
}
ladder::Support backward_tiled_supports(const BackwardArgs& args, const ladder::Machine&) {
  return tiled_supports(args.q);
}

}  // namespace detail

ForwardPlan::ForwardPlan(const ForwardArgs& args, const gpu::Device& device) {
  static_cast<void>(detail::check_forward(args));
  prepared_ = prepare_fastest(kForwardLadder, args, device, rung_);
}
void ForwardPlan::run(gpu::StreamHandle stream) const { (*prepared_)(stream); }

BackwardPlan::BackwardPlan(const BackwardArgs& args, const gpu::Device& device) {
  static_cast<void>(detail::check_backward(args));
  prepared_ = prepare_fastest(kBackwardLadder, args, device, rung_);
}
void BackwardPlan::run(gpu::StreamHandle stream) const { (*prepared_)(stream); }

}  // namespace rungs::attention
