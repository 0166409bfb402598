#include <rungs/gpu/graph.hpp>

#include "capture.hpp"
#include "graph_state.hpp"
#include "stream_state.hpp"

#include <rungs/core/error.hpp>

#include <utility>

namespace rungs::gpu {

struct Graph::State {
  std::shared_ptr<detail::GraphState> shared;
};

Graph::Graph(std::unique_ptr<State> state) : state_(std::move(state)) {}
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
Graph::~Graph() = default;

Graph Graph::capture(StreamHandle stream, const std::function<void()>& body) {
  const auto capture = detail::Capture::begin(detail::StreamState::from(stream));
  try {
    body();
  } catch (...) {
    capture->abandon();
    throw;
  }
  auto shared = std::make_shared<detail::GraphState>(capture->end());
  return Graph(std::make_unique<State>(State{std::move(shared)}));
}

void Graph::replay(StreamHandle stream) const {
  RUNGS_REQUIRE(state_ != nullptr, "replay: the graph was moved away");
  detail::replay(state_->shared, detail::StreamState::from(stream));
}

std::size_t Graph::node_count() const noexcept {
  return state_ == nullptr ? 0 : state_->shared->nodes().size();
}

bool is_capturing(StreamHandle stream) {
  return detail::StreamState::from(stream).capture() != nullptr;
}

}  // namespace rungs::gpu
