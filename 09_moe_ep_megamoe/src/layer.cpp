/// The order of router, exchange and experts, and the memory between them.

#include <rungs/collectives/communicator.hpp>
#include <rungs/core/error.hpp>
#include <rungs/gpu/buffer.hpp>
#include <rungs/moe/layer.hpp>

#include <cmath>

#include "experts.hpp"
#include "router.hpp"
#include "row_exchange.hpp"
#include "tokens.hpp"

namespace rungs::moe {
namespace {

std::size_t product(int a, int b, int c = 1) {
  return static_cast<std::size_t>(a) * static_cast<std::size_t>(b) * static_cast<std::size_t>(c);
}

void check_shape(const Shape& s, int ranks) {
  RUNGS_REQUIRE(s.width >= 64 && s.width % 64 == 0,
                "moe: shape.width must be a positive multiple of 64, got ", s.width);
  RUNGS_REQUIRE(s.hidden >= 64 && s.hidden % 64 == 0,
                "moe: shape.hidden must be a positive multiple of 64, got ", s.hidden);
  RUNGS_REQUIRE(s.experts >= 1 && s.experts <= kMaxExperts, "moe: shape.experts must be from 1 to ",
                kMaxExperts, ", got ", s.experts);
  RUNGS_REQUIRE(s.experts % ranks == 0, "moe: shape.experts must be a multiple of the ", ranks,
                " ranks, got ", s.experts);
  RUNGS_REQUIRE(s.top_k >= 1 && s.top_k <= s.experts, "moe: shape.top_k must be from 1 to the ",
                s.experts, " experts, got ", s.top_k);
  RUNGS_REQUIRE(s.max_tokens >= 1, "moe: shape.max_tokens must be at least 1, got ", s.max_tokens);
}

void check_pointers(const LayerArgs& a) {
  const auto require = [](const void* pointer, const char* name) {
    RUNGS_REQUIRE(pointer != nullptr, "moe: ", name, " is null");
  };
  require(a.router, "router");
  require(a.up, "up");
  require(a.down, "down");
  require(a.balance, "balance");
  require(a.d_router, "d_router");
  require(a.d_up, "d_up");
  require(a.d_down, "d_down");
  if (a.tokens == 0) return;
  require(a.x, "x");
  require(a.residual, "residual");
  require(a.d_residual, "d_residual");
  require(a.dx, "dx");
}

std::unique_ptr<RowExchange> make_exchange(Exchange kind, const ExchangeArgs& args,
                                           const gpu::Device& device) {
  switch (kind) {
    case Exchange::kLocal:
      return make_local(args, device);
    case Exchange::kPadded:
      return make_padded(args, device);
    case Exchange::kCounted:
      return make_counted(args, device);
  }
  RUNGS_THROW(kInvalidArgument, "moe: exchange is ", static_cast<int>(kind), ", no Exchange");
}

// Who takes part, by what the exchange needs; checks the call.
ExchangeArgs checked(const LayerArgs& args, Exchange kind, symmetric::Context* context,
                     collectives::Communicator* communicator) {
  ExchangeArgs result{.shape = args.shape,
                      .capacity_factor = args.capacity_factor,
                      .context = context,
                      .communicator = communicator};
  RUNGS_REQUIRE((kind == Exchange::kCounted) == (context != nullptr),
                "moe: a symmetric context is what kCounted needs, and only kCounted");
  RUNGS_REQUIRE((kind == Exchange::kPadded) == (communicator != nullptr),
                "moe: a communicator is what kPadded needs, and only kPadded");
  if (context != nullptr) {
    join_counted(result);
  }
  if (communicator != nullptr) {
    result.ranks = communicator->size();
    result.rank = communicator->rank();
    RUNGS_REQUIRE(args.capacity_factor > 0 && std::isfinite(args.capacity_factor),
                  "moe: capacity_factor must be a positive number, got ", args.capacity_factor);
  }
  check_shape(args.shape, result.ranks);
  RUNGS_REQUIRE(args.tokens >= 0 && args.tokens <= args.shape.max_tokens,
                "moe: tokens must be from 0 to shape.max_tokens = ", args.shape.max_tokens,
                ", got ", args.tokens);
  RUNGS_REQUIRE(std::isfinite(args.aux_weight), "moe: aux_weight is not finite");
  check_pointers(args);
  return result;
}

}  // namespace

struct Layer::State {
  State(const LayerArgs& args, Exchange kind, const ExchangeArgs& exchange_args,
        const gpu::Device& device)
      : a(args),
        probabilities(device, product(args.tokens, args.shape.experts)),
        gate(device, product(args.tokens, args.shape.top_k)),
        expert(device, product(args.tokens, args.shape.top_k)),
        slot(device, product(args.tokens, args.shape.top_k)),
        count(device, product(args.shape.experts, 1)),
        dropped(device, product(args.shape.experts, 1)),
        total(device, 1),
        exchange(make_exchange(kind, with_counts(exchange_args), device)),
        assignment(device, product(args.shape.experts, exchange->source_rows)),
        d_gate(device, product(args.shape.experts, exchange->source_rows)),
        d_logits(device, product(args.tokens, args.shape.experts)),
        before_gelu(device, hidden_rows(exchange_args)),
        after_gelu(device, hidden_rows(exchange_args)),
        d_hidden(device, hidden_rows(exchange_args)),
        routing{.probabilities = probabilities.data(),
                .expert = expert.data(),
                .gate = gate.data(),
                .slot = slot.data(),
                .assignment = assignment.data(),
                .count = count.data(),
                .dropped = dropped.data(),
                .tally = exchange->tally,
                .total = total.data(),
                .balance = args.balance,
                .tokens = args.tokens,
                .experts = args.shape.experts,
                .top_k = args.shape.top_k,
                .capacity = exchange->source_rows},
        tokens{.routing = routing,
               .padding = exchange->padding,
               .width = args.shape.width,
               .x = args.x,
               .rows = exchange->forward.sent,
               .outputs = exchange->forward.returned,
               .residual = args.residual,
               .d_residual = args.d_residual,
               .d_outputs = exchange->backward.sent,
               .d_gate = d_gate.data()},
        experts({.experts = exchange_args.local_experts(),
                 .capacity = exchange->expert_rows,
                 .width = args.shape.width,
                 .hidden = args.shape.hidden,
                 .count = exchange->arriving,
                 .up = args.up,
                 .down = args.down,
                 .rows = exchange->forward.arrived,
                 .before_gelu = before_gelu.data(),
                 .after_gelu = after_gelu.data(),
                 .outputs = exchange->forward.answers,
                 .d_outputs = exchange->backward.arrived,
                 .d_hidden = d_hidden.data(),
                 .d_rows = exchange->backward.answers,
                 .d_up = args.d_up,
                 .d_down = args.d_down},
                device) {}

  [[nodiscard]] ExchangeArgs with_counts(ExchangeArgs args) const {
    args.counts = count.data();
    return args;
  }
  [[nodiscard]] std::size_t hidden_rows(const ExchangeArgs& args) const {
    return product(args.local_experts(), exchange->expert_rows, a.shape.hidden);
  }

  LayerArgs a;
  gpu::Buffer<float> probabilities, gate;
  gpu::Buffer<std::int32_t> expert, slot, count, dropped;
  gpu::Buffer<Tally> total;
  std::unique_ptr<RowExchange> exchange;
  gpu::Buffer<std::int32_t> assignment;
  gpu::Buffer<float> d_gate, d_logits;
  gpu::Buffer<bf16> before_gelu, after_gelu, d_hidden;
  Routing routing;
  TokensArgs tokens;
  Experts experts;
};

Layer::Layer(const LayerArgs& args, Exchange exchange, const gpu::Device& device,
             symmetric::Context* context, collectives::Communicator* ranks) {
  const ExchangeArgs where = checked(args, exchange, context, ranks);
  state_ = std::make_unique<State>(args, exchange, where, device);
}
Layer::~Layer() = default;
Layer::Layer(Layer&&) noexcept = default;
Layer& Layer::operator=(Layer&&) noexcept = default;

void Layer::forward(const gpu::Queue& queue) const {
  const State& s = *state_;
  // 1. Which experts, which row of their blocks; all ranks learn how many.
  queue.part("router", [&] {
    router_forward(
        {.x = s.a.x, .weight = s.a.router, .routing = s.routing, .width = s.a.shape.width}, queue);
    s.exchange->announce(s.routing, queue);
  });
  // 2. Rows to the experts' ranks.
  queue.part("gather, combine", [&] { gather(s.tokens, queue); });
  queue.part("exchange", [&] { s.exchange->out(s.exchange->forward, queue); });
  // 3. The experts, and their answers back to the tokens' ranks.
  s.experts.forward(queue);
  queue.part("exchange", [&] { s.exchange->back(s.exchange->forward, queue); });
  // 4. residual += Σ gate·answer.
  queue.part("gather, combine", [&] { combine(s.tokens, queue); });
}

void Layer::vjp(const gpu::Queue& queue) const {
  const State& s = *state_;
  // 1. Through the combination; the gradients take the way that the tokens took.
  queue.part("gather, combine VJP", [&] { combine_vjp(s.tokens, queue); });
  queue.part("exchange VJP", [&] { s.exchange->out(s.exchange->backward, queue); });
  // 2. Through the experts, and back.
  s.experts.vjp(queue);
  queue.part("exchange VJP", [&] { s.exchange->back(s.exchange->backward, queue); });
  // 3. Through the router; dx adds what came from the experts in the order of choice.
  queue.part("router VJP", [&] {
    router_vjp({.x = s.a.x,
                .weight = s.a.router,
                .d_gate = s.d_gate.data(),
                .d_rows = s.exchange->backward.returned,
                .routing = s.routing,
                .aux_weight = s.a.aux_weight,
                .d_logits = s.d_logits.data(),
                .dx = s.a.dx,
                .d_weight = s.a.d_router,
                .width = s.a.shape.width},
               queue);
  });
}

std::size_t Layer::heap_bytes(const Shape& shape, int ranks) {
  RUNGS_REQUIRE(ranks >= 1, "moe: heap_bytes for ", ranks, " ranks");
  check_shape(shape, ranks);
  return counted_heap_bytes(shape, ranks);
}

const std::int32_t* Layer::counts() const noexcept { return state_->count.data(); }
const std::int32_t* Layer::dropped() const noexcept { return state_->dropped.data(); }
const std::int32_t* Layer::chosen() const noexcept { return state_->expert.data(); }
const float* Layer::probabilities() const noexcept { return state_->probabilities.data(); }

}  // namespace rungs::moe
