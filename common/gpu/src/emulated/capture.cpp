#include "capture.hpp"

#include "device_state.hpp"
#include "graph_state.hpp"
#include "stream_state.hpp"

#include <rungs/core/error.hpp>

#include <algorithm>
#include <utility>

namespace rungs::gpu::detail {
namespace {

thread_local Capture* innermost =
    nullptr;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

}  // namespace

Capture* Capture::of_this_thread() { return innermost; }

Capture::Capture(StreamState& origin) : origin_(&origin) {}
Capture::~Capture() = default;

std::shared_ptr<Capture> Capture::begin(StreamState& origin) {
  RUNGS_REQUIRE(&origin != &origin.device().default_stream(),
                "capture: the default stream cannot be captured; make a Stream");
  RUNGS_REQUIRE(origin.capture() == nullptr, "capture: ", origin.describe(),
                " is being captured already");
  auto capture = std::make_shared<Capture>(origin);
  const std::lock_guard lock(capture->mutex_);
  capture->branches_[&origin] = {origin.shared_from_this(), {}};
  origin.set_capture(capture);
  capture->outer_ = std::exchange(innermost, capture.get());
  return capture;
}

Capture::Branch& Capture::branch(StreamState& stream) {
  const auto found = branches_.find(&stream);
  RUNGS_REQUIRE(!ended_ && found != branches_.end(), stream.describe(),
                ": the capture ended while this call was recorded");
  return found->second;
}

void Capture::add(StreamState& stream, Operation operation) {
  const std::lock_guard lock(mutex_);
  Frontier& frontier = branch(stream).frontier;
  nodes_.push_back({std::move(operation), std::move(frontier)});
  frontier = {nodes_.size() - 1};
}

void Capture::add(StreamState& stream, const std::vector<GraphNode>& graph) {
  if (graph.empty()) return;
  const std::lock_guard lock(mutex_);
  Frontier& frontier = branch(stream).frontier;
  const std::size_t first = nodes_.size();
  std::vector<bool> is_leaf(graph.size(), true);
  for (const GraphNode& node : graph) {
    nodes_.push_back(node);
    Frontier& dependencies = nodes_.back().dependencies;
    for (std::size_t& dependency : dependencies) {
      is_leaf[dependency] = false;
      dependency += first;
    }
    if (dependencies.empty()) dependencies = frontier;
  }
  frontier.clear();
  for (std::size_t i = 0; i < graph.size(); ++i) {
    if (is_leaf[i]) frontier.push_back(first + i);
  }
}

Frontier Capture::frontier_of(StreamState& stream) {
  const std::lock_guard lock(mutex_);
  return branch(stream).frontier;
}

void Capture::join(StreamState& stream, const Frontier& frontier) {
  const std::lock_guard lock(mutex_);
  RUNGS_REQUIRE(!ended_, stream.describe(),
                " waits for an event recorded inside a capture that has ended; record it again");
  auto [found, forked] = branches_.try_emplace(&stream);
  Frontier& mine = found->second.frontier;
  if (forked) {
    found->second.keep = stream.shared_from_this();
    stream.set_capture(shared_from_this());
  }
  for (const std::size_t node : frontier) {
    if (std::find(mine.begin(), mine.end(), node) == mine.end()) mine.push_back(node);
  }
}

void Capture::refuse(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (refused_.empty()) refused_ = reason;
  RUNGS_THROW(kInvalidArgument, reason);
}

void Capture::abandon() noexcept {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  ended_ = true;
  innermost = outer_;
  for (const auto& [stream, branch] : branches_) stream->set_capture(nullptr);
}

std::vector<GraphNode> Capture::end() {
  abandon();
  const std::lock_guard lock(mutex_);
  RUNGS_REQUIRE(refused_.empty(),
                "capture: no graph, since the body did what a capture does not allow: ", refused_);
  check_joined();
  branches_.clear();
  return std::move(nodes_);
}

// Whatever a forked stream recorded last must be waited for, directly or not, by the origin.
void Capture::check_joined() const {
  std::vector<bool> joined(nodes_.size(), false);
  Frontier open = branches_.at(origin_).frontier;
  while (!open.empty()) {
    const std::size_t node = open.back();
    open.pop_back();
    if (joined[node]) continue;
    joined[node] = true;
    const Frontier& before = nodes_[node].dependencies;
    open.insert(open.end(), before.begin(), before.end());
  }
  for (const auto& [stream, branch] : branches_) {
    for (const std::size_t node : branch.frontier) {
      RUNGS_REQUIRE(
          joined[node], "capture: ", stream->describe(), " was forked from ", origin_->describe(),
          " and not joined again, its ", nodes_[node].operation.describe(),
          " is waited for by nobody; record an event on it and let the captured stream wait");
    }
  }
}

}  // namespace rungs::gpu::detail
