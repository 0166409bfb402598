#include "terms.hpp"

#include <rungs/core/error.hpp>

#include <cmath>
#include <cstdint>
#include <string>

namespace rungs::symmetric::detail {
namespace {

struct Terms {
  std::uint64_t heap_bytes;
  double timeout_seconds;
  std::uint32_t queue_depth;
  std::int32_t network;
  std::int32_t map_peers;
  std::int32_t wire;
  std::int32_t ordinal;
  std::int32_t reserved;
};

const char* name_of(std::int32_t network) {
  return network == static_cast<std::int32_t>(Network::kProxy) ? "proxy" : "GPU-initiated";
}

const char* wire_name(std::int32_t wire) {
  return wire == static_cast<std::int32_t>(verbs::Wire::kUdp) ? "UDP" : "shared memory";
}

// In what `other` differs from rank 0's, with both values; empty: in nothing.
std::string difference(const Terms& first, const Terms& other) {
  if (first.heap_bytes != other.heap_bytes)
    return concat("heap_bytes: ", first.heap_bytes, " and ", other.heap_bytes);
  if (first.timeout_seconds != other.timeout_seconds)
    return concat("timeout_seconds: ", first.timeout_seconds, " and ", other.timeout_seconds);
  if (first.queue_depth != other.queue_depth)
    return concat("queue_depth: ", first.queue_depth, " and ", other.queue_depth);
  if (first.network != other.network)
    return concat("network: ", name_of(first.network), " and ", name_of(other.network));
  if (first.map_peers != other.map_peers)
    return concat("map_peers: ", first.map_peers, " and ", other.map_peers);
  if (first.wire != other.wire)
    return concat("hca.wire: ", wire_name(first.wire), " and ", wire_name(other.wire));
  return {};
}

}  // namespace

void check_options(const ContextOptions& options, int ranks) {
  RUNGS_REQUIRE(ranks <= kMaxRanks, "symmetric: ", ranks, " ranks; at most ", kMaxRanks);
  RUNGS_REQUIRE(options.heap_bytes >= 4096 && options.heap_bytes % 256 == 0,
                "symmetric: heap_bytes = ", options.heap_bytes,
                "; at least 4096, a multiple of 256");
  RUNGS_REQUIRE(std::isfinite(options.timeout_seconds) && options.timeout_seconds > 0 &&
                    options.timeout_seconds <= 1e6,
                "symmetric: timeout_seconds = ", options.timeout_seconds, "; above 0, at most 1e6");
}

std::vector<int> agree(bootstrap::Group& group, const gpu::Device& device,
                       const ContextOptions& options) {
  const Terms mine{options.heap_bytes,        options.timeout_seconds,
                   options.queue_depth,       static_cast<std::int32_t>(options.network),
                   options.map_peers ? 1 : 0, static_cast<std::int32_t>(options.hca.wire),
                   device.ordinal(),          0};
  const std::vector<Terms> all = group.all_gather(mine);
  std::vector<int> ordinals;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const std::string problem = difference(all[0], all[rank]);
    RUNGS_REQUIRE(problem.empty(), "symmetric: ranks 0 and ", rank, " differ in ", problem);
    ordinals.push_back(all[rank].ordinal);
  }
  return ordinals;
}

}  // namespace rungs::symmetric::detail
