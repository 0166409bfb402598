#pragma once
/// @file rank_layer.hpp
/// One rank with everything its layer needs, for the catalog and the tests.

#include <rungs/bootstrap/group.hpp>
#include <rungs/collectives/communicator.hpp>
#include <rungs/gpu/buffer.hpp>
#include <rungs/gpu/queue.hpp>
#include <rungs/gpu/stream.hpp>
#include <rungs/moe/layer.hpp>
#include <rungs/symmetric/context.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "catalog/moe_case.hpp"

namespace rungs::moe {

struct RankOptions {
  Exchange exchange = Exchange::kCounted;
  std::string host_id = {};  ///< as in bootstrap::GroupOptions: ranks that differ use the network
  double timeout_seconds = 30;
  symmetric::Network network = symmetric::Network::kGpuInitiated;
};

/// What one rank's forward pass and VJP leave.
struct RankOutputs {
  std::vector<float> out, dx, d_router, d_up, d_down, balance;
  std::vector<std::int32_t> counts, dropped;
};

class RankLayer {
 public:
  /// Collective, on the rank's own thread.
  RankLayer(const MoeInputs& inputs, const bootstrap::UniqueId& id, int rank,
            const RankOptions& options);
  /// Waits for what is enqueued; while an exception unwinds it aborts first.
  ~RankLayer();
  RankLayer(const RankLayer&) = delete;
  RankLayer& operator=(const RankLayer&) = delete;

  /// The residual's old contents, NaN into all other outputs; waits.
  void reset();
  void forward() const { layer_->forward(queue()); }
  void vjp() const { layer_->vjp(queue()); }
  /// Enqueues copies of other tokens, and of the residual's old contents, over this rank's.
  void load(const gpu::Buffer<bf16>& x, const gpu::Buffer<float>& residual) const;
  /// Waits for this rank. @throws Error what a wait in a kernel reported
  void synchronize();
  /// Waits until all ranks have synchronised: before that nothing may wait for the device inside
  /// CUDA (collectives::Communicator).
  void barrier() { group_.barrier(); }
  [[nodiscard]] RankOutputs outputs() const;

  [[nodiscard]] gpu::Queue queue() const {
    return {.stream = stream_, .sm_count = device_.info().sm_count};
  }
  [[nodiscard]] gpu::Stream& stream() { return stream_; }
  [[nodiscard]] bootstrap::Group& group() { return group_; }
  [[nodiscard]] symmetric::Context& context() { return *context_; }
  /// What layers are made of; pointers stay valid.
  [[nodiscard]] const LayerArgs& args() const { return args_; }
  [[nodiscard]] std::optional<Error> async_error() const;

 private:
  template <class T>
  [[nodiscard]] std::vector<T> download(const T* data, std::size_t count) const;

  int tokens_;
  gpu::Device device_;
  bootstrap::Group group_;
  gpu::Stream stream_;
  std::vector<float> residual_before_;
  gpu::Buffer<bf16> x_, up_, down_;
  gpu::Buffer<float> router_, residual_, d_residual_, dx_, d_router_, d_up_, d_down_, balance_;
  LayerArgs args_;
  std::optional<symmetric::Context> context_;
  std::optional<collectives::Communicator> communicator_;
  std::optional<Layer> layer_;
};

}  // namespace rungs::moe
