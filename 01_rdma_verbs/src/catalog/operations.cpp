/// Stage 01 as the harness, the CLI and the chapter's table see it.

#include <rungs/ladder/build.hpp>
#include <rungs/verbs/catalog.hpp>
#include <rungs/verbs/ladder.hpp>

#include "catalog/transfer_problem.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace rungs::verbs {
namespace {

constexpr double kMtu = 4096;
constexpr double kBthAndIcrc = 16;
constexpr double kReth = 16;

struct CatalogCase {
  TransferShape shape;
  bool in_quick = false;
  bool in_tour = false;
};

// Small messages show what a message costs, large ones what a byte costs.
std::vector<CatalogCase> catalog_cases() {
  return {{{512, 8, Wire::kSharedMemory}, true, true},
          {{256, 4096, Wire::kSharedMemory}, false, true},
          {{32, 65536, Wire::kSharedMemory}, true, true},
          {{256, 8, Wire::kUdp}, true, true},
          {{128, 4096, Wire::kUdp}, false, false}};
}

ladder::Case describe(const CatalogCase& entry, bool has_reth) {
  const double messages = entry.shape.messages;
  const double bytes = entry.shape.message_bytes;
  const double packets = std::max(1.0, std::ceil(bytes / kMtu));
  ladder::Case result;
  result.name = to_string(entry.shape);
  result.cost.bytes = 2 * messages * bytes;
  result.cost.wire_bytes = messages * (bytes + packets * kBthAndIcrc + (has_reth ? kReth : 0));
  result.in_quick = entry.in_quick;
  result.in_tour = entry.in_tour;
  return result;
}

template <class Args, std::size_t N>
ladder::Operation operation(const char* name, const std::array<ladder::Rung<Args>, N>& ladder,
                            bool has_reth) {
  ladder::OperationSpec<Args> spec;
  spec.stage = "01_rdma_verbs";
  spec.name = name;
  spec.on_host = true;
  spec.oracle = "the bytes sent, from their seed: destination, its guards and the source";
  spec.error_bound = "0: every byte must be the one that was sent";
  const std::vector<CatalogCase> cases = catalog_cases();
  for (const CatalogCase& entry : cases) spec.cases.push_back(describe(entry, has_reth));
  spec.make_problem = [cases](std::size_t index, const ladder::Machine&, std::uint64_t seed) {
    return std::make_unique<TransferProblem<Args>>(cases.at(index).shape, seed);
  };
  return ladder::make_operation(ladder, std::move(spec));
}

}  // namespace

std::vector<ladder::Operation> operations() {
  return {operation("verbs_write", kWriteLadder, true),
          operation("verbs_send", kSendLadder, false)};
}

}  // namespace rungs::verbs
