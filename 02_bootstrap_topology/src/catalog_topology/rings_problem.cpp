#include "catalog_topology/rings_problem.hpp"

#include <rungs/core/error.hpp>

#include <limits>
#include <optional>

namespace rungs::topology {
namespace {

constexpr double kModelledBytes = 1024.0 * 1024 * 1024;

using Choose = Rings (*)(const System&);

/// Chooses the rings. What is timed is not the choice, which a job makes once, but what it is
/// worth.
class Chosen final : public ladder::Prepared {
 public:
  Chosen(const RingArgs& args, Choose choose) : args_(args), choose_(choose) {}
  void operator()(gpu::StreamHandle) override { *args_.rings = choose_(*args_.system); }
  std::optional<double> time_once() override { return modelled_seconds(choose_(*args_.system)); }

 private:
  RingArgs args_;
  Choose choose_;
};

ladder::Support always(const RingArgs&, const ladder::Machine&) { return {}; }

template <Choose kChoose>
std::unique_ptr<ladder::Prepared> prepare(const RingArgs& args, const ladder::Machine&) {
  return std::make_unique<Chosen>(args, kChoose);
}

Rings found(const System& system) { return search(system); }

}  // namespace

const std::array<ladder::Rung<RingArgs>, 2> kRingLadder{
    {{"rank_order", "one ring in rank order, whatever lies between the GPUs", always,
      prepare<rank_order>},
     {"search", "as many rings as fit: depth first, each ring's bandwidth off its links", always,
      prepare<found>}}};

double modelled_seconds(const Rings& rings) {
  RUNGS_REQUIRE(!rings.rings.empty() && rings.total() > 0, "modelled_seconds: no rings");
  const auto ranks = static_cast<double>(rings.rings.front().ranks.size());
  return 2 * (ranks - 1) / ranks * kModelledBytes / (rings.total() * 1e9);
}

RingsProblem::RingsProblem(const Machine& machine)
    : system_(parse_xml(topology::describe(machine), "case")),
      oracle_(system_) {
  // All sets of 16 rings can be tried for up to four GPUs, which have six rings.
  possible_ = machine.gpus <= 4 ? oracle_.optimum(16) : oracle_.at_most();
  reset();
}

void RingsProblem::reset() { rings_ = {{}, std::numeric_limits<double>::quiet_NaN()}; }

std::vector<float> RingsProblem::output() {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  if (!oracle_.broken(rings_).empty()) return {0, kNaN, kNaN};
  return {1, static_cast<float>(rings_.gb_per_s / oracle_.carried(rings_)),
          rings_.total() <= possible_ * (1 + 1e-9) ? 1.0f : 0.0f};
}

double RingsProblem::bound(std::size_t element) {
  // A quotient of two doubles that went different ways, rounded to float.
  return element == 1 ? 0x1p-23 : 0;
}

std::string RingsProblem::describe(std::size_t element) {
  constexpr std::array<const char*, 3> kNames{"every ring visits every rank once",
                                              "claimed ÷ carried bandwidth",
                                              "no more than the machine has"};
  return kNames.at(element);
}

}  // namespace rungs::topology
