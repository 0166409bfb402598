#include <rungs/symmetric/all_reduce.hpp>

#include <rungs/collectives/communicator.hpp>
#include <rungs/core/deadline.hpp>
#include <rungs/core/error.hpp>
#include <rungs/core/log.hpp>
#include <rungs/gpu/buffer.hpp>
#include <rungs/gpu/graph.hpp>
#include <rungs/gpu/stream.hpp>
#include <rungs/symmetric/kernel_table.hpp>

#include "detail/exchange.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rungs::symmetric {
namespace {

using collectives::Communicator;
using collectives::Op;

// Fewer elements are added up whole by every rank of a node and cross the network once for each of
// them: a collective less, where bytes cost nothing yet.
constexpr std::size_t kWhole = 4096;
// Parts of a node's ranks begin at multiples of 16 bytes.
constexpr std::size_t kPartUnit = 4;

/// How a call divides among the ranks of a node: a part for each, and a rest for all.
struct Split {
  std::size_t part;
  std::size_t rest;
};
Split split(std::size_t count, std::size_t node_size) {
  if (node_size == 1 || count <= kWhole) return {0, count};
  const std::size_t part = count / node_size / kPartUnit * kPartUnit;
  return {part, count - node_size * part};
}

/// The most that part and rest of a call are together.
std::size_t message_capacity(std::size_t max_count, std::size_t node_size) {
  if (node_size == 1) return max_count;
  return std::max(std::min(max_count, kWhole), max_count / node_size + kPartUnit * node_size);
}

std::size_t rounded(std::size_t size_bytes) { return (size_bytes + 255) / 256 * 256; }

std::string show(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += concat(text.empty() ? "" : ", ", rank);
  return text;
}

/// All ranks by node, each node as many. Throws otherwise.
std::vector<std::vector<int>> equal_nodes(const bootstrap::Group& group) {
  std::vector<std::vector<int>> nodes = group.hosts();
  for (const std::vector<int>& node : nodes) {
    RUNGS_REQUIRE(node.size() == nodes.front().size(), "all_reduce: nodes differ in size: ranks ",
                  show(nodes.front()), " are on one host, ranks ", show(node), " on another");
  }
  return nodes;
}

}  // namespace

struct AllReduce::State {
  State(Context& its_context, std::size_t its_max_count);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void allocate();
  void load(gpu::StreamHandle stream);
  void sum_in_node(float* data, std::size_t count, float factor, gpu::StreamHandle stream);
  void sum_over_nodes(float* data, std::size_t count, float factor, gpu::StreamHandle stream);

  Context& context;
  std::size_t max_count;
  std::vector<std::vector<int>> nodes;
  std::size_t node_size;
  std::size_t node = 0;                   // this rank's
  std::size_t place = 0;                  // this rank's in its node
  std::optional<bootstrap::Group> group;  // of the node's ranks
  std::optional<Communicator> communicator;
  gpu::Buffer<std::uint64_t> epoch;
  gpu::Buffer<std::uint32_t> through;
  detail::Exchange exchange{};
  gpu::Event last;  // behind the last call outside of captures
};

AllReduce::State::State(Context& its_context, std::size_t its_max_count)
    : context(its_context),
      max_count(its_max_count),
      nodes(equal_nodes(its_context.group())),
      node_size(nodes.front().size()),
      last(its_context.device(), gpu::Timing::kNone) {
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const auto found = std::find(nodes[n].begin(), nodes[n].end(), context.rank());
    if (found == nodes[n].end()) continue;
    node = n;
    place = static_cast<std::size_t>(found - nodes[n].begin());
  }
  if (nodes.size() > 1) allocate();
  if (node_size > 1) {
    group.emplace(context.group().subgroup(nodes[node]));
    communicator.emplace(*group, context.device(), kernel_table(), tuner());
    exchange.node_failed = communicator->abort_word();
  }
  {
    const gpu::Stream stream(context.device());
    load(stream);
  }
  // A peer's first put must not come before this rank's windows are there, and zeroed.
  context.group().barrier();
}

void AllReduce::State::allocate() {
  exchange.context = context.on_device();
  exchange.node = static_cast<int>(node);
  exchange.nodes = static_cast<int>(nodes.size());
  for (std::size_t n = 0; n < nodes.size(); ++n) exchange.peers[n] = nodes[n][place];
  exchange.capacity = message_capacity(max_count, node_size);
  exchange.mine = context.allocate<float>(exchange.capacity);
  exchange.windows = context.allocate<float>(2 * nodes.size() * exchange.capacity);
  exchange.signals = context.allocate<std::uint64_t>(
      static_cast<std::size_t>(detail::kExchangeBlocks) * nodes.size());
  epoch = gpu::Buffer<std::uint64_t>(context.device(), 1);
  through = gpu::Buffer<std::uint32_t>(context.device(), 1);
  exchange.epoch = epoch.data();
  exchange.through = through.data();
}

// Kernels are loaded before a peer's may wait: see collectives::Communicator.
void AllReduce::State::load(gpu::StreamHandle stream) {
  if (nodes.size() > 1) {
    gpu::fill_async(epoch.data(), 0, epoch.size_bytes(), stream);
    gpu::fill_async(through.data(), 0, through.size_bytes(), stream);
    detail::exchange(exchange, {}, stream);
  }
  detail::scale(nullptr, 0, 1, stream);
  last.record(stream);
  gpu::synchronize(stream);
}

AllReduce::State::~State() {
  try {
    last.synchronize();
  } catch (const std::exception& error) {
    log::error("symmetric: while rank ", context.rank(), " leaves an all_reduce: ", error.what());
  }
}

void AllReduce::State::sum_in_node(float* data, std::size_t count, float factor,
                                   gpu::StreamHandle stream) {
  if (communicator) communicator->all_reduce(data, data, count, DType::kF32, Op::kSum, stream);
  if (factor != 1) detail::scale(data, count, factor, stream);
}

void AllReduce::State::sum_over_nodes(float* data, std::size_t count, float factor,
                                      gpu::StreamHandle stream) {
  const Split cut = split(count, node_size);
  float* const my_part = data + place * cut.part;
  float* const rest = data + node_size * cut.part;
  float* const mine = exchange.mine;
  // 1. The node's sums: of my part, and of the rest.
  if (!communicator) {
    gpu::copy_async(mine, data, count * sizeof(float), stream);
  } else {
    if (cut.part > 0)
      communicator->reduce_scatter(data, mine, cut.part, DType::kF32, Op::kSum, stream);
    if (cut.rest > 0)
      communicator->all_reduce(rest, mine + cut.part, cut.rest, DType::kF32, Op::kSum, stream);
  }
  // 2. The sums over nodes, scaled, back into the data.
  detail::exchange(exchange, {cut.part, cut.rest, my_part, rest, factor}, stream);
  // 3. The other places' parts.
  if (cut.part > 0) communicator->all_gather(my_part, data, cut.part, DType::kF32, stream);
}

AllReduce::AllReduce(Context& context, std::size_t max_count)
    : state_(std::make_unique<State>(context, max_count)) {}
AllReduce::~AllReduce() = default;
AllReduce::AllReduce(AllReduce&&) noexcept = default;
AllReduce& AllReduce::operator=(AllReduce&&) noexcept = default;

void AllReduce::sum(float* data, std::size_t count, float scale, gpu::StreamHandle stream) {
  State& state = *state_;
  check();
  RUNGS_REQUIRE(count <= state.max_count, "all_reduce: count = ", count, "; made for at most ",
                state.max_count);
  if (count == 0) return;
  RUNGS_REQUIRE(data != nullptr, "all_reduce: data is null");
  RUNGS_REQUIRE(reinterpret_cast<std::uintptr_t>(data) % alignof(float) == 0,
                "all_reduce: data = ", static_cast<const void*>(data),
                " is not aligned to the 4 bytes of f32");
  if (state.nodes.size() > 1) {
    state.sum_over_nodes(data, count, scale, stream);
  } else {
    state.sum_in_node(data, count, scale, stream);
  }
  if (!gpu::is_capturing(stream)) state.last.record(stream);
}

std::size_t AllReduce::heap_bytes(std::size_t max_count, int ranks, int nodes) {
  RUNGS_REQUIRE(nodes >= 1 && ranks >= nodes && ranks % nodes == 0, "all_reduce: ", ranks,
                " ranks do not make ", nodes, " nodes of one size");
  if (nodes == 1) return 0;
  const auto n = static_cast<std::size_t>(nodes);
  const std::size_t capacity = message_capacity(max_count, static_cast<std::size_t>(ranks / nodes));
  return rounded(capacity * sizeof(float)) + rounded(2 * n * capacity * sizeof(float)) +
         rounded(static_cast<std::size_t>(detail::kExchangeBlocks) * n * sizeof(std::uint64_t));
}

void AllReduce::check() const {
  const auto whole = [&] {
    if (const std::optional<Error> error = state_->context.async_error()) throw *error;
  };
  whole();
  if (!state_->communicator) return;
  const std::optional<collectives::AsyncError> error = state_->communicator->async_error();
  if (!error) return;
  // The context counts ranks as the caller does, and hears of the same failure, maybe a moment
  // later: the group of a node tells the group of all.
  const Deadline moment = Deadline::after(std::chrono::seconds(1));
  for (Backoff backoff; !moment.passed(); backoff.pause()) whole();
  throw Error(error->code,
              concat("in the node of ranks ", show(state_->nodes[state_->node]),
                     ", counted from 0 there: ", error->text),
              __FILE__, __LINE__);
}

}  // namespace rungs::symmetric
