#include "catalog/moe_problem.hpp"

#include <rungs/ladder/rank_team.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

namespace rungs::moe {
namespace {

constexpr auto kRanks = static_cast<std::size_t>(kCatalogRanks);

// One rank's layer, and events around its work.
struct Member {
  Member(const MoeInputs& inputs, const bootstrap::UniqueId& id, int rank, Exchange exchange)
      : layer(inputs, id, rank, {.exchange = exchange}),
        begin(gpu::Device::open(rank % gpu::Device::count())),
        end(gpu::Device::open(rank % gpu::Device::count())) {
    // Not for the first time while another rank's kernel waits: rungs/gpu/stream.hpp.
    begin.record(layer.stream());
    end.record(layer.stream());
    layer.stream().synchronize();
    layer.barrier();
  }
  RankLayer layer;
  gpu::Event begin, end;
};

class PreparedMoe final : public ladder::Prepared {
 public:
  PreparedMoe(MoeArgs args, Exchange exchange)
      : args_(std::move(args)),
        members_(kRanks),
        team_(kCatalogRanks) {
    bootstrap::RootOptions options;
    options.ranks = kCatalogRanks;
    options.interface_or_address = "127.0.0.1";
    const bootstrap::Root root(options);
    team_.run([&](int rank) { member(rank).emplace(*args_.inputs, root.id(), rank, exchange); });
  }
  ~PreparedMoe() override {
    team_.run([&](int rank) { member(rank).reset(); });
  }
  PreparedMoe(const PreparedMoe&) = delete;
  PreparedMoe& operator=(const PreparedMoe&) = delete;

  void operator()(gpu::StreamHandle /*ranks have their own*/) override {
    args_.results->ranks.assign(kRanks, {});
    team_.run([&](int rank) {
      RankLayer& layer = member(rank)->layer;
      layer.reset();
      layer.barrier();
      enqueue(layer);
      layer.synchronize();
      layer.barrier();
      args_.results->ranks[static_cast<std::size_t>(rank)] = layer.outputs();
    });
  }

  // The slowest rank's.
  std::optional<double> time_once() override {
    constexpr int kInARow = RUNGS_GPU_CUDA ? 20 : 1;
    std::array<double, kRanks> seconds{};
    team_.run([&](int rank) {
      Member& me = *member(rank);
      me.layer.barrier();
      me.begin.record(me.layer.stream());
      for (int i = 0; i < kInARow; ++i) enqueue(me.layer);
      me.end.record(me.layer.stream());
      me.layer.synchronize();
      me.layer.barrier();
      seconds[static_cast<std::size_t>(rank)] = me.end.seconds_since(me.begin) / kInARow;
    });
    return *std::max_element(seconds.begin(), seconds.end());
  }

 private:
  std::optional<Member>& member(int rank) { return members_[static_cast<std::size_t>(rank)]; }
  void enqueue(const RankLayer& layer) const {
    layer.forward();
    if (args_.with_vjp) layer.vjp();
  }

  MoeArgs args_;
  std::vector<std::optional<Member>> members_;
  ladder::RankTeam team_;  // ends first
};

// The outputs in the order of output(): by rank, by tensor.
template <class F>
void for_each_part(const RankOutputs& rank, bool with_vjp, F&& f) {
  f("residual", rank.out);
  f("balance", rank.balance);
  if (!with_vjp) return;
  f("dx", rank.dx);
  f("d_router", rank.d_router);
  f("d_up", rank.d_up);
  f("d_down", rank.d_down);
}

}  // namespace

std::unique_ptr<ladder::Prepared> prepare_moe(const MoeArgs& args, Exchange exchange) {
  return std::make_unique<PreparedMoe>(args, exchange);
}

MoeProblem::MoeProblem(const MoeCase& spec, bool with_vjp, std::uint64_t seed)
    : args_{std::make_shared<const MoeInputs>(make_inputs(spec, seed)),
            std::make_shared<MoeResults>(), with_vjp} {}

void MoeProblem::reset() { args_.results->ranks.clear(); }

std::vector<float> MoeProblem::output() {
  std::vector<float> all;
  for (const RankOutputs& rank : args_.results->ranks)
    for_each_part(rank, args_.with_vjp, [&](const char*, const std::vector<float>& part) {
      all.insert(all.end(), part.begin(), part.end());
    });
  return all;
}

ladder::Reference MoeProblem::reference() {
  const LayerReference want =
      reference_layer(*args_.inputs, std::numeric_limits<int>::max(), args_.with_vjp);
  ladder::Reference result;
  bounds_.clear();
  const auto add = [&](const Judged& part, std::size_t first, std::size_t count) {
    const auto begin = static_cast<std::ptrdiff_t>(first);
    const auto end = static_cast<std::ptrdiff_t>(first + count);
    result.values.insert(result.values.end(), part.value.begin() + begin, part.value.begin() + end);
    bounds_.insert(bounds_.end(), part.bound.begin() + begin, part.bound.begin() + end);
  };
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    add(want.out[rank], 0, want.out[rank].value.size());
    add(want.balance, 0, want.balance.value.size());
    if (!args_.with_vjp) continue;
    add(want.dx[rank], 0, want.dx[rank].value.size());
    add(want.d_router[rank], 0, want.d_router[rank].value.size());
    for (const Judged* weights : {&want.d_up, &want.d_down}) {
      const std::size_t part = weights->value.size() / kRanks;
      add(*weights, rank * part, part);
    }
  }
  return result;
}

std::string MoeProblem::describe(std::size_t element) {
  std::string text = "element " + std::to_string(element);
  std::size_t first = 0;
  for (std::size_t rank = 0; rank < args_.results->ranks.size(); ++rank)
    for_each_part(args_.results->ranks[rank], args_.with_vjp,
                  [&](const char* name, const std::vector<float>& part) {
                    if (element >= first && element < first + part.size())
                      text = "rank " + std::to_string(rank) + "'s " + name + "[" +
                             std::to_string(element - first) + "]";
                    first += part.size();
                  });
  return text;
}

}  // namespace rungs::moe
