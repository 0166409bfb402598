#include <rungs/gpu/graph.hpp>

#include "api.hpp"

#include <rungs/core/log.hpp>

#include <utility>
#include <vector>

namespace rungs::gpu {
namespace {

struct NodeCounts {
  std::size_t kernels = 0;
  std::size_t others = 0;  // copies and fills
};

// Adds those of child graphs too.
void count_nodes(cudaGraph_t graph, NodeCounts& counts) {
  std::size_t count = 0;
  detail::check(cudaGraphGetNodes(graph, nullptr, &count), "cudaGraphGetNodes");
  std::vector<cudaGraphNode_t> nodes(count);
  if (count > 0) detail::check(cudaGraphGetNodes(graph, nodes.data(), &count), "cudaGraphGetNodes");
  for (const cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type{};
    detail::check(cudaGraphNodeGetType(node, &type), "cudaGraphNodeGetType");
    if (type == cudaGraphNodeTypeGraph) {
      cudaGraph_t child = nullptr;
      detail::check(cudaGraphChildGraphNodeGetGraph(node, &child),
                    "cudaGraphChildGraphNodeGetGraph");
      count_nodes(child, counts);
    } else if (type == cudaGraphNodeTypeKernel) {
      ++counts.kernels;
    } else if (type == cudaGraphNodeTypeMemcpy || type == cudaGraphNodeTypeMemset) {
      ++counts.others;
    }
  }
}

[[noreturn]] void refuse_end(cudaError_t result, const std::string& refused) {
  const std::string explained = detail::explain(result);
  RUNGS_REQUIRE(refused.empty(),
                "capture: no graph, since the body did what a capture does not allow: ", refused);
  RUNGS_REQUIRE(
      result != cudaErrorStreamCaptureUnjoined,
      "capture: a stream was forked from the captured one and not joined again; record an event on "
      "it and let the captured stream wait");
  RUNGS_THROW(kInvalidArgument, "capture: ", explained);
}

}  // namespace

struct Graph::State {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  NodeCounts counts;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  // A replay in flight goes on: the runtime frees the executable when it ends.
  ~State() {
    if (executable != nullptr) warn(cudaGraphExecDestroy(executable));
    if (graph != nullptr) warn(cudaGraphDestroy(graph));
  }
  static void warn(cudaError_t result) noexcept {
    if (result != cudaSuccess && result != cudaErrorCudartUnloading) {
      log::warn("a graph could not be destroyed: ", detail::explain(result));
    }
  }

  // Inside a capture a graph becomes a child node that the stream's next work waits for.
  void add_to_capture(cudaStream_t stream) const {
    cudaStreamCaptureStatus status{};
    cudaGraph_t outer = nullptr;
    const cudaGraphNode_t* before = nullptr;
    std::size_t before_count = 0;
    cudaGraphNode_t node = nullptr;
#if CUDART_VERSION >= 13000
    detail::check(
        cudaStreamGetCaptureInfo(stream, &status, nullptr, &outer, &before, nullptr, &before_count),
        "cudaStreamGetCaptureInfo");
#else
    detail::check(
        cudaStreamGetCaptureInfo_v2(stream, &status, nullptr, &outer, &before, &before_count),
        "cudaStreamGetCaptureInfo");
#endif
    detail::check(cudaGraphAddChildGraphNode(&node, outer, before, before_count, graph),
                  "cudaGraphAddChildGraphNode");
#if CUDART_VERSION >= 13000
    detail::check(cudaStreamUpdateCaptureDependencies(stream, &node, nullptr, 1,
                                                      cudaStreamSetCaptureDependencies),
                  "cudaStreamUpdateCaptureDependencies");
#else
    detail::check(
        cudaStreamUpdateCaptureDependencies(stream, &node, 1, cudaStreamSetCaptureDependencies),
        "cudaStreamUpdateCaptureDependencies");
#endif
  }
};

Graph::Graph(std::unique_ptr<State> state) : state_(std::move(state)) {}
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
Graph::~Graph() = default;

Graph Graph::capture(StreamHandle stream, const std::function<void()>& body) {
  RUNGS_REQUIRE(stream != nullptr, "capture: the default stream cannot be captured; make a Stream");
  RUNGS_REQUIRE(!is_capturing(stream), "capture: the stream is being captured already");
  const detail::DeviceGuard guard(detail::device_of(stream));
  auto state = std::make_unique<State>();
  std::string refused;
  {
    const detail::CaptureScope scope;
    detail::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
                  "cudaStreamBeginCapture");
    try {
      body();
    } catch (...) {
      (void)cudaStreamEndCapture(stream, &state->graph);
      (void)cudaGetLastError();
      throw;
    }
    refused = scope.refused();
  }
  const cudaError_t result = cudaStreamEndCapture(stream, &state->graph);
  if (result != cudaSuccess || !refused.empty()) refuse_end(result, refused);
  count_nodes(state->graph, state->counts);
  detail::check(cudaGraphInstantiate(&state->executable, state->graph, 0), "cudaGraphInstantiate");
  return Graph(std::move(state));
}

void Graph::replay(StreamHandle stream) const {
  RUNGS_REQUIRE(state_ != nullptr, "replay: the graph was moved away");
  if (is_capturing(stream)) return state_->add_to_capture(stream);
  detail::check(cudaGraphLaunch(state_->executable, stream), "replay of a graph");
  detail::count_launches(detail::device_of(stream), state_->counts.kernels);
}

std::size_t Graph::node_count() const noexcept {
  return state_ == nullptr ? 0 : state_->counts.kernels + state_->counts.others;
}

bool is_capturing(StreamHandle stream) {
  if (stream == nullptr)
    return false;  // asking would be an error while a blocking stream is captured
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  detail::check(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace rungs::gpu
