#include "network/network_part.hpp"

#include "network/gpu_queues.hpp"
#include "network/proxy.hpp"

#include <rungs/core/error.hpp>

#include <algorithm>
#include <bit>
#include <chrono>
#include <string>

namespace rungs::symmetric::detail {
namespace {

// How many silences in a row of ack_timeout_seconds make a peer lost: one more.
constexpr std::uint8_t kRetries = 7;
// A pair that refused a peer's request knows less than the peer, whose report comes first if it is
// still there to make one.
constexpr auto kPeerReports = std::chrono::seconds(1);

// What each rank tells all others.
struct Announcement {
  std::uint64_t heap = 0;
  std::uint64_t heap_bytes = 0;
  std::uint64_t key = 0;
  verbs::QpAddress pairs[kMaxRanks];  // for each peer; qp_number 0: none
};

std::uint32_t checked_depth(std::uint32_t depth, const verbs::DeviceInfo& hca) {
  RUNGS_REQUIRE(depth >= 2 && depth <= hca.max_queue_depth, "context: queue_depth ", depth, ": ",
                hca.name, " takes 2 to ", hca.max_queue_depth);
  return std::bit_ceil(depth);
}

void check(const std::vector<Announcement>& all) {
  const auto size = static_cast<int>(all.size());
  const auto reaches = [&](int from, int to) {
    return all[static_cast<std::size_t>(from)].pairs[to].qp_number != 0;
  };
  for (int rank = 0; rank < size; ++rank) {
    const Announcement& one = all[static_cast<std::size_t>(rank)];
    RUNGS_REQUIRE(one.heap_bytes == all[0].heap_bytes, "context: rank 0 has a heap of ",
                  all[0].heap_bytes, " bytes, rank ", rank, " one of ", one.heap_bytes,
                  ": every rank must ask for the same");
    for (int peer = 0; peer < size; ++peer) {
      RUNGS_REQUIRE(!reaches(rank, peer) || reaches(peer, rank), "context: rank ", rank,
                    " reaches rank ", peer, " over the network, rank ", peer, " reaches rank ",
                    rank, " otherwise: every rank must have the same options");
    }
  }
}

}  // namespace

std::string describe_failure(const Connection& connection, verbs::Opcode opcode,
                             std::uint64_t request, verbs::Status status) {
  std::string text = concat("the queue pair from rank ", connection.rank, " to rank ",
                            connection.peer, " failed: ", verbs::to_string(opcode), ' ', request,
                            " of the queue ended with ", verbs::to_string(status));
  if (status == verbs::Status::kRetryExceeded) {
    text += concat(": rank ", connection.peer, "'s HCA does not answer; has the rank died?");
  } else if (status == verbs::Status::kRemoteAccess) {
    text += concat(": outside rank ", connection.peer, "'s heap");
  } else if (status == verbs::Status::kLocalProtection) {
    text += ": outside this rank's heap";
  }
  return text;
}

NetworkPart::NetworkPart(bootstrap::Group& group, const gpu::Device& device,
                         const ContextOptions& options, std::byte* heap, std::size_t heap_bytes,
                         const std::vector<int>& peers, std::uint64_t max_message_bytes,
                         double ack_timeout_seconds)
    : network_(options.network),
      ack_timeout_seconds_(ack_timeout_seconds),
      hca_(verbs::Device::open_soft(options.hca)),
      domain_(hca_.alloc_pd()),
      scratch_memory_(device, 1, gpu::Space::kHostMapped),
      local_{domain_.register_memory(heap, heap_bytes, verbs::Access::kAll),
             domain_.register_memory(scratch_memory_.data(), scratch_memory_.size_bytes(),
                                     verbs::Access::kLocalWrite)} {
  RUNGS_REQUIRE(max_message_bytes >= 1 && max_message_bytes <= kMaxMessageBytes,
                "context: messages of ", max_message_bytes, " bytes: from 1 to ", kMaxMessageBytes);
  connect(group, options, heap_bytes, peers);
  const std::uint32_t depth = checked_depth(options.queue_depth, hca_.info());
  if (network_ == Network::kGpuInitiated) {
    queues_ = std::make_unique<GpuQueues>(device, group.size(), connections_, local_, depth,
                                          max_message_bytes);
  } else {
    proxy_ = std::make_unique<Proxy>(device, group.rank(), group.size(), connections_, local_,
                                     depth, max_message_bytes);
  }
  // Both ends of a pair must be connected before the first request.
  group.barrier();
}

NetworkPart::~NetworkPart() = default;

void NetworkPart::connect(bootstrap::Group& group, const ContextOptions& options,
                          std::size_t heap_bytes, const std::vector<int>& peers) {
  RUNGS_REQUIRE(group.size() <= kMaxRanks, "context: ", group.size(), " ranks, at most ", kMaxRanks,
                " are possible");
  const std::uint32_t depth = checked_depth(options.queue_depth, hca_.info());
  Announcement mine;
  mine.heap = local_.heap.remote_address();
  mine.heap_bytes = heap_bytes;
  mine.key = local_.heap.rkey();
  connections_.reserve(peers.size());
  for (const int peer : peers) {
    RUNGS_ASSERT(peer >= 0 && peer < group.size() && peer != group.rank(), "peer ", peer, " of ",
                 group.size(), " ranks");
    // Twice the depth: kernels say only now and then how far they have read.
    verbs::CompletionQueue completions = hca_.create_cq(2 * depth);
    verbs::QueuePairOptions pair;
    pair.send_cq = pair.recv_cq = &completions;
    pair.send_depth = depth;
    pair.recv_depth = 1;
    pair.max_segments = 1;
    pair.max_inline_bytes = kSignalBytes;  // so that every request is one WQEBB
    pair.retry_count = kRetries;
    pair.ack_timeout_seconds = ack_timeout_seconds_;
    Connection& connection = connections_.emplace_back(
        Connection{group.rank(), peer, completions, domain_.create_rc(pair), 0, 0});
    mine.pairs[peer] = connection.pair.address();
  }
  const std::vector<Announcement> all = group.all_gather(mine);
  check(all);
  for (Connection& connection : connections_) {
    const Announcement& theirs = all[static_cast<std::size_t>(connection.peer)];
    connection.remote_heap = theirs.heap;
    connection.remote_key = static_cast<std::uint32_t>(theirs.key);
    connection.pair.connect(theirs.pairs[group.rank()]);
  }
}

void NetworkPart::fill(DeviceContext& context) const noexcept {
  context.network = network_;
  context.queues = queues_ ? queues_->on_device() : nullptr;
  context.proxy = proxy_ ? proxy_->on_device() : nullptr;
}

std::optional<NetworkFailure> NetworkPart::failure() {
  std::optional<NetworkFailure> cause = queues_ ? queues_->failure() : proxy_->failure();
  if (cause) return cause;
  const auto failed = std::find_if(connections_.begin(), connections_.end(),
                                   [](const Connection& one) { return one.pair.failed(); });
  if (failed == connections_.end()) return std::nullopt;
  {
    const std::lock_guard lock(refused_mutex_);
    if (!peer_reports_by_) peer_reports_by_ = Deadline::after(kPeerReports);
    if (!peer_reports_by_->passed()) return std::nullopt;
  }
  return NetworkFailure{failed->peer,
                        concat("the queue pair from rank ", failed->rank, " to rank ", failed->peer,
                               " failed without an error completion: it refused a request of rank ",
                               failed->peer, ", whose own report says more")};
}

bool NetworkPart::drain(const Deadline& deadline, const std::function<bool()>& over) {
  return queues_ ? queues_->drain(deadline, over) : proxy_->drain(deadline, over);
}

}  // namespace rungs::symmetric::detail
