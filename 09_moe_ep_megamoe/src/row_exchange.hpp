#pragma once
// How rows get from tokens to experts and back. All exchanges look alike to the layer: it gathers
// into blocks at the tokens' end, carries them out, runs the experts, carries the answers back and
// combines. The same journey is made twice: with tokens in the forward pass, with gradients in the
// VJP.

#include <rungs/core/dtype.hpp>
#include <rungs/gpu/device.hpp>
#include <rungs/gpu/queue.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "routing.hpp"
#include "tokens.hpp"

namespace rungs::moe {

/// The memory of one journey. E blocks of `source_rows` at the tokens' end, L of `expert_rows` at
/// the experts'.
struct Journey {
  bf16* sent = nullptr;       // [E, source_rows, width] the layer fills it
  bf16* arrived = nullptr;    // [L, expert_rows, width] zero from the count to the next kPadRows
  float* answers = nullptr;   // [L, expert_rows, width] the experts fill it
  float* returned = nullptr;  // [E, source_rows, width]
};

class RowExchange {
 public:
  virtual ~RowExchange() = default;
  RowExchange() = default;
  RowExchange(const RowExchange&) = delete;
  RowExchange& operator=(const RowExchange&) = delete;

  int source_rows = 0;  // at the tokens' end: also the router's capacity
  int expert_rows = 0;  // a multiple of kPadRows
  Padding padding = Padding::kNone;
  Journey forward;
  Journey backward;
  const std::int32_t* arriving = nullptr;  // device, [L] rows in use at the experts' end
  Tally* tally = nullptr;                  // where the router writes this rank's

  /// Every rank's tally to every rank: total, balance and arriving.
  virtual void announce(const Routing& routing, const gpu::Queue& queue) const = 0;
  /// sent → arrived.
  virtual void out(const Journey& journey, const gpu::Queue& queue) const = 0;
  /// answers → returned.
  virtual void back(const Journey& journey, const gpu::Queue& queue) const = 0;
};

struct ExchangeArgs {
  Shape shape;
  int ranks = 1;
  int rank = 0;
  float capacity_factor = 1;
  const std::int32_t* counts = nullptr;  // device, [E] Routing::count
  symmetric::Context* context = nullptr;
  collectives::Communicator* communicator = nullptr;

  [[nodiscard]] int local_experts() const { return shape.experts / ranks; }
};

/// Elements of `blocks` blocks of `rows` rows.
inline std::size_t block_elements(int blocks, int rows, const Shape& shape) {
  return static_cast<std::size_t>(blocks) * static_cast<std::size_t>(rows) *
         static_cast<std::size_t>(shape.width);
}
/// The next multiple of kPadRows.
inline int padded_rows(long long rows) {
  return static_cast<int>((rows + kPadRows - 1) / kPadRows * kPadRows);
}

std::unique_ptr<RowExchange> make_local(const ExchangeArgs& args, const gpu::Device& device);
std::unique_ptr<RowExchange> make_padded(const ExchangeArgs& args, const gpu::Device& device);
std::unique_ptr<RowExchange> make_counted(const ExchangeArgs& args, const gpu::Device& device);

/// Fills in ranks and rank from the context.
void join_counted(ExchangeArgs& args);
/// Heap bytes of one layer in the counted exchange.
std::size_t counted_heap_bytes(const Shape& shape, int ranks);
/// Rows that an expert takes from one rank in the padded exchange.
int padded_capacity(const Shape& shape, float capacity_factor);

}  // namespace rungs::moe
