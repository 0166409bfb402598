#pragma once
/// @file graph_state.hpp
/// The executable graph: operations, who waits for whom, and the counters of the replay in flight.

#include "operation.hpp"
#include "stream_state.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace rungs::gpu::detail {

struct GraphNode {
  Operation operation;
  std::vector<std::size_t> dependencies;
};

/// Shared by the Graph and every replay in flight.
class GraphState final : public Completable {
 public:
  explicit GraphState(std::vector<GraphNode> nodes);

  [[nodiscard]] const std::vector<GraphNode>& nodes() const { return nodes_; }
  /// As DeviceState's, for every device that the graph uses.
  void throw_if_reported() const;
  /// Runs the graph as the front of `stream`, after replays on other streams that began earlier.
  void begin(StreamState& stream);

  void completed(std::size_t node) noexcept override;
  void failed(std::size_t node, const std::string& report) override;

 private:
  void run();
  void finish();
  void start(std::size_t node);

  std::vector<GraphNode> nodes_;
  std::vector<std::vector<std::size_t>> successors_;
  std::vector<std::size_t> roots_;
  std::vector<DeviceState*> devices_;
  std::unique_ptr<std::atomic<std::size_t>[]>
      pending_;                             // by node: dependencies that have not ended
  std::atomic<std::size_t> remaining_ = 0;  // nodes that have not ended
  std::mutex mutex_;                        // of what follows
  StreamState* active_ = nullptr;
  std::deque<StreamState*> waiting_;  // the graph's counters serve one replay at a time
};

/// Queues a replay of `graph` on `stream`, or adds its nodes to the capture going on there.
void replay(const std::shared_ptr<GraphState>& graph, StreamState& stream);

}  // namespace rungs::gpu::detail
