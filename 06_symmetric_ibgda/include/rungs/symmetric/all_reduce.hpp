#pragma once
/// @file all_reduce.hpp
/// An all-reduce over nodes: reduce-scatter inside a node (stage 04), exchange of the parts between
/// nodes over the network (put_device.hpp), all-gather inside the node.

#include <rungs/core/dtype.hpp>
#include <rungs/gpu/device.hpp>
#include <rungs/symmetric/context.hpp>

#include <cstddef>
#include <memory>

namespace rungs::symmetric {

/// Sums f32 tensors over all ranks of a context, in place. Nodes are the hosts that the group sees;
/// all must have the same number of ranks. With one node it is stage 04's all-reduce, with one rank
/// a node only the exchange.
/// @note deterministic, and every rank gets the same bits: parts are added in the order of nodes
/// @note capturable; calls on one object run in order, on any one stream at a time
/// @note if a rank is lost or gives up, the data of all ranks is undefined: Context::synchronize(),
///       check() or the next call says so on each, at the latest when the news has reached it
class AllReduce {
 public:
  /// Collective. Allocates windows for `max_count` elements from the context's heap (see
  /// heap_bytes()) and makes the node's communicator.
  /// @throws Error kInvalidArgument if nodes differ in size
  AllReduce(Context& context, std::size_t max_count);
  ~AllReduce();
  AllReduce(AllReduce&&) noexcept;
  AllReduce& operator=(AllReduce&&) noexcept;

  /// data[i] = scale · sum over ranks of data[i]; count at most max_count; every rank alike.
  void sum(float* data, std::size_t count, float scale, gpu::StreamHandle stream);
  /// What it takes of the heap.
  static std::size_t heap_bytes(std::size_t max_count, int ranks, int nodes);
  /// Throws what the context or the node's communicator reported, if one did.
  void check() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rungs::symmetric
