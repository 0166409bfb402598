// The padded exchange: equal blocks of `capacity` rows through an all-to-all.
//
// What:   every rank sends every expert a block of `capacity` rows, used or not; what does not fit
//         is dropped by the router. Static sizes: the collective needs no counts.
// New:    nothing; the naive rung (Tutel's way).
// Layout: on the wire [R, L, capacity, width], which is [E, capacity, width] at the tokens' end,
//         since expert e lies on rank e / L. The experts want [L, R·capacity, width]: one copy
//         more.
// Cost:   out 2·E·capacity·width bytes, back twice that (fp32), whatever the router chose; the
//         experts compute R·capacity rows each.
// Source: Hwang et al., "Tutel: Adaptive mixture-of-experts at scale", 2022.

#include <rungs/collectives/communicator.hpp>
#include <rungs/gpu/buffer.hpp>
#include <rungs/gpu/lanes_device.hpp>
#include <rungs/gpu/stream.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

#include "router.hpp"
#include "row_exchange.hpp"

namespace rungs::moe {
namespace {

// Between [R, L, capacity, width] and [L, expert_rows, width].
struct Permutation {
  int ranks;
  int local_experts;
  int capacity;
  int expert_rows;
  int width;
};

RUNGS_DEVICE std::int64_t row_at_expert(const Permutation& p, int item) {
  const int row = item % p.capacity;
  const int e = item / p.capacity % p.local_experts;
  const int rank = item / p.capacity / p.local_experts;
  return (static_cast<std::int64_t>(e) * p.expert_rows + rank * p.capacity + row) * p.width;
}

RUNGS_KERNEL(gpu::kRowThreads) to_experts_kernel(Permutation p, const bf16* wire, bf16* arrived) {
  for (int item = gpu::first_index(); item < p.ranks * p.local_experts * p.capacity;
       item += gpu::index_step()) {
    const bf16* from = wire + static_cast<std::int64_t>(item) * p.width;
    bf16* to = arrived + row_at_expert(p, item);
    for (int c = 0; c < p.width; ++c) to[c] = from[c];
  }
}

RUNGS_KERNEL(gpu::kRowThreads)
from_experts_kernel(Permutation p, const float* answers, float* wire) {
  for (int item = gpu::first_index(); item < p.ranks * p.local_experts * p.capacity;
       item += gpu::index_step()) {
    const float* from = answers + row_at_expert(p, item);
    float* to = wire + static_cast<std::int64_t>(item) * p.width;
    for (int c = 0; c < p.width; ++c) to[c] = from[c];
  }
}

class Padded final : public RowExchange {
 public:
  Padded(const ExchangeArgs& a, const gpu::Device& device)
      : communicator_(*a.communicator),
        capacity_(padded_capacity(a.shape, a.capacity_factor)),
        experts_rows_(padded_rows(static_cast<long long>(a.ranks) * capacity_)),
        source_(block_elements(a.shape.experts, capacity_, a.shape)),
        at_experts_(block_elements(a.local_experts(), experts_rows_, a.shape)),
        sent_(device, source_),
        wire_bf16_(device, source_),
        arrived_(device, at_experts_),
        d_arrived_(device, at_experts_),
        answers_(device, at_experts_),
        wire_f32_(device, source_),
        returned_(device, source_),
        d_returned_(device, source_),
        arriving_(device, static_cast<std::size_t>(a.local_experts())),
        tally_(device, 1),
        tallies_(device, static_cast<std::size_t>(a.ranks)),
        permutation_{a.ranks, a.local_experts(), capacity_, experts_rows_, a.shape.width} {
    source_rows = capacity_;
    expert_rows = experts_rows_;
    padding = Padding::kBlock;
    forward = {sent_.data(), arrived_.data(), answers_.data(), returned_.data()};
    backward = {sent_.data(), d_arrived_.data(), answers_.data(), d_returned_.data()};
    arriving = arriving_.data();
    tally = tally_.data();
    // Rows behind the blocks of all ranks are read as part of a tile and written by nobody.
    const gpu::Stream stream(device);
    gpu::fill_async(arrived_.data(), 0, arrived_.size_bytes(), stream);
    gpu::fill_async(d_arrived_.data(), 0, d_arrived_.size_bytes(), stream);
    arriving_.upload(std::vector<std::int32_t>(arriving_.size(), a.ranks * capacity_), stream);
    stream.synchronize();
  }

  void announce(const Routing& routing, const gpu::Queue& queue) const override {
    communicator_.all_gather(tally_.data(), tallies_.data(), sizeof(Tally) / sizeof(std::int32_t),
                             DType::kI32, queue.stream);
    add_tallies(tallies_.data(), permutation_.ranks, routing, queue);
  }

  void out(const Journey& journey, const gpu::Queue& queue) const override {
    communicator_.all_to_all(journey.sent, wire_bf16_.data(), part(), DType::kBf16, queue.stream);
    gpu::launch("moe_to_experts", gpu::row_grid(queue, rows()), queue.stream, to_experts_kernel,
                permutation_, wire_bf16_.data(), journey.arrived);
  }

  void back(const Journey& journey, const gpu::Queue& queue) const override {
    gpu::launch("moe_from_experts", gpu::row_grid(queue, rows()), queue.stream, from_experts_kernel,
                permutation_, journey.answers, wire_f32_.data());
    communicator_.all_to_all(wire_f32_.data(), journey.returned, part(), DType::kF32, queue.stream);
  }

 private:
  // Rows, and elements that go to one rank.
  [[nodiscard]] long long rows() const {
    return 1ll * permutation_.ranks * permutation_.local_experts * capacity_;
  }
  [[nodiscard]] std::size_t part() const {
    return source_ / static_cast<std::size_t>(permutation_.ranks);
  }

  collectives::Communicator& communicator_;
  int capacity_;
  int experts_rows_;
  std::size_t source_, at_experts_;
  gpu::Buffer<bf16> sent_, wire_bf16_, arrived_, d_arrived_;
  gpu::Buffer<float> answers_, wire_f32_, returned_, d_returned_;
  gpu::Buffer<std::int32_t> arriving_;
  gpu::Buffer<Tally> tally_, tallies_;
  Permutation permutation_;
};

}  // namespace

int padded_capacity(const Shape& shape, float capacity_factor) {
  const double rows = std::ceil(static_cast<double>(capacity_factor) * shape.top_k *
                                shape.max_tokens / shape.experts);
  // A token chooses an expert once: more rows than tokens are never used.
  return static_cast<int>(std::clamp(rows, 1.0, static_cast<double>(shape.max_tokens)));
}

std::unique_ptr<RowExchange> make_padded(const ExchangeArgs& args, const gpu::Device& device) {
  return std::make_unique<Padded>(args, device);
}

}  // namespace rungs::moe
