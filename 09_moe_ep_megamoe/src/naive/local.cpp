// One rank: both ends are the same memory, nothing travels.

#include <rungs/gpu/buffer.hpp>

#include "router.hpp"
#include "row_exchange.hpp"

namespace rungs::moe {
namespace {

class Local final : public RowExchange {
 public:
  Local(const ExchangeArgs& a, const gpu::Device& device)
      : rows_(device, elements(a)),
        d_outputs_(device, elements(a)),
        outputs_(device, elements(a)),
        d_rows_(device, elements(a)),
        tally_(device, 1) {
    source_rows = expert_rows = padded_rows(a.shape.max_tokens);
    padding = Padding::kTile;
    forward = {rows_.data(), rows_.data(), outputs_.data(), outputs_.data()};
    backward = {d_outputs_.data(), d_outputs_.data(), d_rows_.data(), d_rows_.data()};
    arriving = a.counts;
    tally = tally_.data();
  }

  void announce(const Routing& routing, const gpu::Queue& queue) const override {
    add_tallies(tally, 1, routing, queue);
  }
  void out(const Journey&, const gpu::Queue&) const override {}
  void back(const Journey&, const gpu::Queue&) const override {}

 private:
  static std::size_t elements(const ExchangeArgs& a) {
    return block_elements(a.shape.experts, padded_rows(a.shape.max_tokens), a.shape);
  }
  gpu::Buffer<bf16> rows_, d_outputs_;
  gpu::Buffer<float> outputs_, d_rows_;
  gpu::Buffer<Tally> tally_;
};

}  // namespace

std::unique_ptr<RowExchange> make_local(const ExchangeArgs& args, const gpu::Device& device) {
  return std::make_unique<Local>(args, device);
}

}  // namespace rungs::moe
