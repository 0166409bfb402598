/// Attention backward, tiled: the rung made of backward_dq_tiled.cu and backward_dkdv_tiled.cu.
///
/// Workspace: one float a query row and head (delta), written by the first launch and read by the
///       second.

#include "backward_tiled.hpp"

#include "../detail/prepare.hpp"

#include <rungs/gpu/buffer.hpp>

namespace rungs::attention::detail {
namespace {

class BackwardTiled final : public ladder::Prepared {
 public:
  BackwardTiled(const BackwardParams& params, const gpu::Device& device)
      : params_(params),
        delta_(device, static_cast<std::size_t>(params.shape.batch) * params.shape.heads *
                           params.shape.queries) {
    params_.delta = delta_.data();
  }
  void operator()(gpu::StreamHandle stream) override {
    launch_backward_dq(params_, stream);
    launch_backward_dkdv(params_, stream);
  }

 private:
  BackwardParams params_;
  gpu::Buffer<float> delta_;
};

}  // namespace

std::unique_ptr<ladder::Prepared> prepare_backward_tiled(const BackwardArgs& args,
                                                         const ladder::Machine& machine) {
  const BackwardParams params = check_backward(args);
  require_support(backward_tiled_supports(args, machine));
  return std::make_unique<BackwardTiled>(params, *machine.device);
}

}  // namespace rungs::attention::detail
