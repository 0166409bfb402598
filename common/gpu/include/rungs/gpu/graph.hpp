#pragma once
/// @file graph.hpp
/// Capture of a stream's work into a graph, and its replay.

#include <rungs/gpu/stream.hpp>

#include <functional>
#include <memory>

namespace rungs::gpu {

/// An executable graph. Pointers and parameters are those of the capture: what changes between
/// replays (learning rate, step, counts) must be read from device memory.
class Graph {
 public:
  /// Runs `body`, recording instead of executing what it enqueues on `stream` (and on streams
  /// forked from it by events and joined again).
  /// @param stream a Stream's handle; the default stream cannot be captured
  /// @throws Error kInvalidArgument if the body synchronises, allocates or leaves a fork unjoined;
  ///         whatever the body throws
  /// @note capture belongs to the stream: other threads and streams go on as usual
  static Graph capture(StreamHandle stream, const std::function<void()>& body);
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;
  ~Graph();

  /// Enqueues the whole graph on `stream`. Replays of one graph run one after the other, on any
  /// streams. Inside a capture the graph becomes part of the outer one.
  /// @note the Graph may be destroyed while a replay is in flight
  void replay(StreamHandle stream) const;
  /// Kernels, copies and fills in the graph.
  [[nodiscard]] std::size_t node_count() const noexcept;

 private:
  struct State;
  explicit Graph(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Whether `stream` is being captured.
bool is_capturing(StreamHandle stream);

}  // namespace rungs::gpu
