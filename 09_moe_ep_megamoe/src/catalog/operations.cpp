/// Stage 09 as the harness, the CLI and the chapter's table see it.

#include <rungs/moe/catalog.hpp>

#include <algorithm>
#include <array>
#include <utility>

#include "catalog/moe_problem.hpp"
#include "row_exchange.hpp"

namespace rungs::moe {
namespace {

ladder::Support always(const MoeArgs&, const ladder::Machine&) { return {}; }

std::unique_ptr<ladder::Prepared> prepare_padded(const MoeArgs& args, const ladder::Machine&) {
  return prepare_moe(args, Exchange::kPadded);
}
std::unique_ptr<ladder::Prepared> prepare_counted(const MoeArgs& args, const ladder::Machine&) {
  return prepare_moe(args, Exchange::kCounted);
}

constexpr std::array<ladder::Rung<MoeArgs>, 2> kLadder{{
    {"padded", "equal blocks for every expert through an all-to-all, as full as they may get",
     &always, &prepare_padded},
    {"counted", "counts travel first and stay on the device; then exactly the rows that exist",
     &always, &prepare_counted},
}};

std::vector<MoeCase> cases() {
  constexpr int kExperts = 8;
  constexpr int kLocal = kExperts / kCatalogRanks;
  const std::vector<int> equal(kCatalogRanks, 64);
  std::vector<int> unequal(kCatalogRanks, 1);
  unequal.front() = 0;
  unequal.back() = 96;
  MoeCase large;
  large.name = "256_tokens";
  large.width = 1024;
  large.hidden = 512;  // the oracle in double sets the price
  large.experts = 16;
  large.tokens.assign(kCatalogRanks, 256);
  const auto make = [&](const char* name, const std::vector<int>& tokens,
                        std::vector<float> bias = {}) {
    MoeCase result;
    result.name = name;
    result.experts = kExperts;
    result.tokens = tokens;
    result.bias = std::move(bias);
    return result;
  };
  return {make("balanced", equal),
          make("skewed", equal, falling(kExperts, 0.7f)),
          make("one_expert", equal, favouring(kExperts, 0, 1, 12)),
          make("empty_rank", equal, favouring(kExperts, kExperts - kLocal, kLocal, -12)),
          make("unequal", unequal),
          std::move(large)};
}

// What the counted exchange moves; the padded one moves E·capacity rows a rank, used or not.
ladder::Cost cost_of(const MoeCase& spec, bool with_vjp) {
  double rows = 0;
  for (const int tokens : spec.tokens) rows += 1.0 * tokens * spec.top_k;
  const double width = spec.width;
  const double products = 2.0 * rows * 2 * width * spec.hidden;
  const double weights = 2.0 * spec.experts * 2 * width * spec.hidden;
  const double ranks = spec.ranks();
  ladder::Cost cost;
  cost.flops = products * (with_vjp ? 3 : 1);
  // Weights once, and rows: gathered, put, through two products, back and combined; gradients are
  // written in fp32.
  cost.bytes = weights * (with_vjp ? 4 : 1) +
               rows * (with_vjp ? 2 : 1) * (6 * 2 * width + 4 * 4 * width + 4 * 2.0 * spec.hidden);
  // Rows out in bf16 and back in fp32, of which the share (R - 1) / R crosses a link when experts
  // are chosen alike; the tallies cross it all.
  cost.wire_bytes = (with_vjp ? 2 : 1) * rows * 6 * width * (ranks - 1) / ranks +
                    ranks * (ranks - 1) * sizeof(Tally);
  cost.steps = with_vjp ? 5 : 3;
  return cost;
}

ladder::Operation make(bool with_vjp) {
  ladder::OperationSpec<MoeArgs> spec;
  spec.stage = "09_moe_ep_megamoe";
  spec.name = with_vjp ? "moe_forward_vjp" : "moe_forward";
  spec.ranks = kCatalogRanks;
  spec.oracle = "all ranks' tokens one by one in double, every element";
  spec.error_bound =
      "each rounding (2^-8 bf16, 2^-24 fp32) carried to the outputs with absolute values; derived "
      "in the chapter";
  const std::vector<MoeCase> all = cases();
  for (const MoeCase& entry : all) {
    ladder::Case& added = spec.cases.emplace_back();
    added.name = entry.name;
    added.cost = cost_of(entry, with_vjp);
    added.gpu_only = entry.width > 512;
    added.in_tour = !added.gpu_only;
    added.in_quick = entry.name == "balanced" || entry.name == "skewed";
  }
  spec.make_problem = [all, with_vjp](std::size_t index, const ladder::Machine&,
                                      std::uint64_t seed) {
    return std::make_unique<MoeProblem>(all.at(index), with_vjp, seed);
  };
  return ladder::make_operation(kLadder, std::move(spec));
}

}  // namespace

std::vector<ladder::Operation> operations() { return {make(false), make(true)}; }

}  // namespace rungs::moe
