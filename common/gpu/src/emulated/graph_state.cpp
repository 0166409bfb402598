#include "graph_state.hpp"

#include "device_state.hpp"

#include <rungs/core/error.hpp>

#include <algorithm>
#include <utility>

namespace rungs::gpu::detail {
namespace {

class ReplayWork final : public Work {
 public:
  explicit ReplayWork(std::shared_ptr<GraphState> graph) : graph_(std::move(graph)) {}
  bool start(StreamState& stream) override {
    graph_->begin(stream);
    return false;
  }
  std::string describe() const override {
    return concat("replay of a graph of ", graph_->nodes().size(), " nodes");
  }

 private:
  std::shared_ptr<GraphState> graph_;
};

}  // namespace

GraphState::GraphState(std::vector<GraphNode> nodes)
    : nodes_(std::move(nodes)),
      successors_(nodes_.size()),
      pending_(std::make_unique<std::atomic<std::size_t>[]>(nodes_.size())) {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    for (const std::size_t dependency : nodes_[i].dependencies)
      successors_[dependency].push_back(i);
    if (nodes_[i].dependencies.empty()) roots_.push_back(i);
    DeviceState* device = &nodes_[i].operation.device();
    if (std::find(devices_.begin(), devices_.end(), device) == devices_.end())
      devices_.push_back(device);
  }
}

void GraphState::throw_if_reported() const {
  for (DeviceState* device : devices_) device->throw_if_reported("replay");
}

void GraphState::begin(StreamState& stream) {
  {
    const std::lock_guard lock(mutex_);
    if (active_ != nullptr) {
      waiting_.push_back(&stream);
      return;
    }
    active_ = &stream;
  }
  run();
}

void GraphState::run() {
  if (nodes_.empty()) return finish();
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    pending_[i].store(nodes_[i].dependencies.size(), std::memory_order_relaxed);
  }
  remaining_.store(nodes_.size(), std::memory_order_release);
  // The last root that ends may end the replay, and with it `this`: nothing of it is touched
  // afterwards.
  const std::size_t root_count = roots_.size();
  for (std::size_t i = 0; i + 1 < root_count; ++i) start(roots_[i]);
  start(roots_[root_count - 1]);
}

void GraphState::start(std::size_t node) {
  if (nodes_[node].operation.start({this, node})) complete({this, node});
}

void GraphState::completed(std::size_t node) noexcept {
  for (const std::size_t successor : successors_[node]) {
    if (pending_[successor].fetch_sub(1, std::memory_order_acq_rel) == 1) start(successor);
  }
  if (remaining_.fetch_sub(1, std::memory_order_acq_rel) == 1) finish();
}

void GraphState::failed(std::size_t node, const std::string& report) {
  nodes_[node].operation.device().fail(report);
}

void GraphState::finish() {
  StreamState* ended = nullptr;
  bool again = false;
  {
    const std::lock_guard lock(mutex_);
    ended = active_;
    again = !waiting_.empty();
    active_ = again ? waiting_.front() : nullptr;
    if (again) waiting_.pop_front();
  }
  // In this order: the ended stream's share keeps `this` alive while run() reads it.
  if (again) run();
  complete({ended, StreamState::kFrontEnded});
}

void replay(const std::shared_ptr<GraphState>& graph, StreamState& stream) {
  graph->throw_if_reported();
  if (const auto recording = stream.capture()) {
    recording->add(stream, graph->nodes());
  } else {
    stream.enqueue(std::make_unique<ReplayWork>(graph));
  }
}

}  // namespace rungs::gpu::detail
