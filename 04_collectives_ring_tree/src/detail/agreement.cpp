#include "detail/agreement.hpp"

#include <rungs/core/deadline.hpp>
#include <rungs/core/error.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <string_view>

namespace rungs::collectives::detail {
namespace {

constexpr int kDefaultChannels = RUNGS_GPU_CUDA ? 16 : 2;

/// What travels between ranks: no pointers, fixed size.
struct Terms {
  std::uint64_t timeout_ns;
  std::uint64_t slot_bytes[kMaxProtocols];
  std::uint64_t table_hash;
  std::int32_t table_entries;
  std::int32_t channels;
  std::int32_t compute_capability;
  std::int32_t ordinal;
  std::uint8_t rings[kMaxChannels][kMaxRanks];
};

std::uint64_t hash_of(KernelTable table) {
  std::string text;
  for (const KernelEntry& entry : table) {
    text +=
        concat(static_cast<int>(entry.what), ' ', entry.algorithm, ' ',
               static_cast<int>(entry.protocol), ' ', static_cast<int>(entry.dtype), ' ',
               static_cast<int>(entry.op), ' ', entry.slot_bytes, ' ', entry.payload_bytes, ';');
  }
  std::uint64_t hash = 14695981039346656037ull;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return hash;
}

std::string show(const std::vector<int>& ring) {
  std::string text;
  for (const int rank : ring) text += concat(text.empty() ? "" : " ", rank);
  return text;
}

std::string show_ring(const Terms& terms, int channel, int size) {
  const std::uint8_t* const ring = terms.rings[channel];
  return show(std::vector<int>(ring, ring + size));
}

void check_ring(const std::vector<int>& ring, std::size_t channel, int size) {
  std::vector<int> sorted = ring;
  std::sort(sorted.begin(), sorted.end());
  bool right = ring.size() == static_cast<std::size_t>(size);
  for (std::size_t i = 0; right && i < sorted.size(); ++i) right = sorted[i] == static_cast<int>(i);
  RUNGS_REQUIRE(right, "communicator: rings[", channel, "] is '", show(ring),
                "'; it must name each of the ranks 0 to ", size - 1, " once");
}

/// The first difference between what rank `other` and rank 0 said; empty if there is none.
std::string difference(const Terms& first, const Terms& terms, int other, int size) {
  const auto differ = [&](std::string_view what, const auto& a, const auto& b) {
    return concat("communicator: ranks disagree on ", what, ": rank 0 says ", a, ", rank ", other,
                  " says ", b, "; give every rank the same");
  };
  if (terms.channels != first.channels) return differ("channels", first.channels, terms.channels);
  for (int i = 0; i < kMaxProtocols; ++i) {
    if (terms.slot_bytes[i] == first.slot_bytes[i]) continue;
    return differ(concat("slot bytes of ", to_string(static_cast<ProtocolId>(i))),
                  first.slot_bytes[i], terms.slot_bytes[i]);
  }
  if (terms.timeout_ns != first.timeout_ns) {
    return differ("timeout_seconds", static_cast<double>(first.timeout_ns) / 1e9,
                  static_cast<double>(terms.timeout_ns) / 1e9);
  }
  for (int c = 0; c < first.channels; ++c) {
    if (std::memcmp(terms.rings[c], first.rings[c], kMaxRanks) == 0) continue;
    return differ(concat("rings[", c, "]"), show_ring(first, c, size), show_ring(terms, c, size));
  }
  if (terms.table_hash != first.table_hash) {
    return differ("the kernel table", concat(first.table_entries, " kernels"),
                  concat(terms.table_entries, " kernels, or others"));
  }
  return {};
}

}  // namespace

Settings settle(const CommunicatorOptions& options, int size, KernelTable table) {
  RUNGS_REQUIRE(size <= kMaxRanks, "communicator: ", size, " ranks; at most ", kMaxRanks);
  RUNGS_REQUIRE(!table.empty(), "communicator: the kernel table is empty");
  Settings settings;
  settings.channels = options.channels;
  if (settings.channels == 0) {
    settings.channels =
        options.rings.empty() ? kDefaultChannels : static_cast<int>(options.rings.size());
  }
  RUNGS_REQUIRE(settings.channels >= 1 && settings.channels <= kMaxChannels,
                "communicator: channels = ", settings.channels, "; 1 to ", kMaxChannels);
  const auto channels = static_cast<std::size_t>(settings.channels);
  RUNGS_REQUIRE(options.rings.empty() || options.rings.size() == channels,
                "communicator: ", options.rings.size(), " rings for ", channels,
                " channels; give one for each");
  settings.rings = options.rings;
  for (std::size_t c = 0; c < settings.rings.size(); ++c) check_ring(settings.rings[c], c, size);
  if (settings.rings.empty()) {
    std::vector<int> order;
    for (int rank = 0; rank < size; ++rank) order.push_back(rank);
    settings.rings.assign(channels, order);
  }

  constexpr std::size_t kMostSlotBytes = std::size_t{64} << 20;
  for (const KernelEntry& entry : table) {
    std::size_t& bytes = settings.slot_bytes[static_cast<std::size_t>(entry.protocol)];
    bytes = std::max(bytes, entry.slot_bytes);
  }
  if (options.slot_bytes != 0)
    settings.slot_bytes[static_cast<std::size_t>(ProtocolId::kSimple)] = options.slot_bytes;
  for (const std::size_t bytes : settings.slot_bytes) {
    RUNGS_REQUIRE(bytes % 16 == 0 && bytes <= kMostSlotBytes, "communicator: slots of ", bytes,
                  " bytes; a multiple of 16, at most ", kMostSlotBytes);
  }
  RUNGS_REQUIRE(std::isfinite(options.timeout_seconds) && options.timeout_seconds > 0 &&
                    options.timeout_seconds <= 1e6,
                "communicator: timeout_seconds = ", options.timeout_seconds,
                "; above 0, at most 1e6");
  settings.timeout_ns = static_cast<std::uint64_t>(options.timeout_seconds * timeout_scale() * 1e9);
  return settings;
}

Agreement agree(bootstrap::Group& group, const Settings& mine, KernelTable table,
                const gpu::Device& device) {
  const int size = group.size();
  Terms terms{};
  terms.timeout_ns = mine.timeout_ns;
  std::copy(mine.slot_bytes.begin(), mine.slot_bytes.end(), terms.slot_bytes);
  terms.table_hash = hash_of(table);
  terms.table_entries = static_cast<std::int32_t>(table.size());
  terms.channels = mine.channels;
  terms.compute_capability = device.info().compute_major * 10 + device.info().compute_minor;
  terms.ordinal = device.ordinal();
  for (std::size_t c = 0; c < mine.rings.size(); ++c) {
    for (std::size_t i = 0; i < mine.rings[c].size(); ++i)
      terms.rings[c][i] = static_cast<std::uint8_t>(mine.rings[c][i]);
  }
  const std::vector<Terms> all = group.all_gather(terms);

  Agreement agreement;
  agreement.surroundings.ranks = size;
  agreement.surroundings.compute_capability = terms.compute_capability;
  agreement.surroundings.same_device = size > 1;
  for (int rank = 0; rank < size; ++rank) {
    const Terms& other = all[static_cast<std::size_t>(rank)];
    const std::string problem = difference(all[0], other, rank, size);
    RUNGS_REQUIRE(problem.empty(), problem);
    agreement.ordinals.push_back(other.ordinal);
    agreement.surroundings.compute_capability =
        std::min(agreement.surroundings.compute_capability, int{other.compute_capability});
    // An emulated device belongs to its process.
    const bool shared = other.ordinal == all[0].ordinal &&
                        (RUNGS_GPU_CUDA != 0 || group.same_process(rank)) && group.same_host(rank);
    agreement.surroundings.same_device = agreement.surroundings.same_device && shared;
  }
  return agreement;
}

}  // namespace rungs::collectives::detail
