/// Stage 03 as the harness, the CLI and the chapter's table see it.

#include <rungs/ladder/build.hpp>
#include <rungs/transport/catalog.hpp>

#include "catalog/send_recv.hpp"

#include <memory>
#include <utility>
#include <vector>

namespace rungs::transport {
namespace {

struct CatalogCase {
  Kind kind;
  std::size_t size_bytes;
};

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;

std::vector<CatalogCase> catalog_cases() {
  std::vector<CatalogCase> cases;
  for (const Kind kind : {Kind::kSharedMemory, Kind::kSocket, Kind::kVerbs, Kind::kGpuPeer}) {
    for (const std::size_t size : {kKiB, 64 * kKiB, 4 * kMiB, 16 * kMiB})
      cases.push_back({kind, size});
  }
  return cases;
}

ladder::Case describe(const CatalogCase& entry) {
  const std::size_t size = entry.size_bytes;
  ladder::Case result;
  result.name = concat(to_string(entry.kind), " ",
                       size < kMiB ? concat(size / kKiB, " KiB") : concat(size / kMiB, " MiB"));
  result.cost.bytes = 2.0 * static_cast<double>(size);
  result.cost.wire_bytes = static_cast<double>(size);
  result.cost.steps = 1;
  result.in_tour = size == kKiB || size == 4 * kMiB;
  result.in_quick = size == 4 * kMiB;
  return result;
}

ladder::Operation send_recv() {
  ladder::OperationSpec<SendRecv> spec;
  spec.stage = "03_p2p_net_transport";
  spec.name = "send_recv";
  spec.oracle = "the words that were sent, every one";
  spec.error_bound = "none: every bit as it was sent";
  spec.on_host = true;
  spec.ranks = 2;
  const std::vector<CatalogCase> cases = catalog_cases();
  for (const CatalogCase& entry : cases) spec.cases.push_back(describe(entry));
  spec.make_problem = [cases](std::size_t case_index, const ladder::Machine&, std::uint64_t seed) {
    const CatalogCase& entry = cases.at(case_index);
    return std::make_unique<SendRecvProblem>(entry.kind, entry.size_bytes, seed);
  };
  return ladder::make_operation(kLadder, std::move(spec));
}

}  // namespace

std::vector<ladder::Operation> operations() { return {send_recv()}; }

}  // namespace rungs::transport
