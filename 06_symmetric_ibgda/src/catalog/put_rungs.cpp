// The three ways of a put: rank threads with a context each, and one kernel.

#include "catalog/ping_pong.hpp"
#include "catalog/put_problem.hpp"

#include <rungs/bootstrap/group.hpp>
#include <rungs/gpu/stream.hpp>
#include <rungs/ladder/rank_team.hpp>
#include <rungs/symmetric/context.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

namespace rungs::symmetric {
namespace {

ContextOptions options_for(const PutShape& shape, bool map_peers, Network network) {
  ContextOptions options;
  constexpr std::size_t kPage = 4096;
  const std::size_t windows = 2 * shape.size_bytes * shape.round_trips;
  options.heap_bytes = (windows + kPage - 1) / kPage * kPage + kPage;  // words and alignment
  options.map_peers = map_peers;
  options.network = network;
  return options;
}

/// One rank's ends of things.
struct Member {
  Member(const bootstrap::UniqueId& id, int rank, const PutArgs& args,
         const ContextOptions& options)
      : group(id, rank, kPutRanks),
        stream(args.devices[static_cast<std::size_t>(rank)]),
        begin(args.devices[static_cast<std::size_t>(rank)]),
        end(args.devices[static_cast<std::size_t>(rank)]),
        context(group, args.devices[static_cast<std::size_t>(rank)], options) {
    const std::size_t bytes = args.shape.size_bytes * args.shape.round_trips;
    side.size_bytes = args.shape.size_bytes;
    side.messages = context.allocate<std::uint8_t>(bytes);
    side.windows = context.allocate<std::uint8_t>(bytes);
    side.arrived = context.allocate<std::uint64_t>(1);
    context.seal();
    if (rank == 0) gpu::copy_async(side.messages, args.send, bytes, stream);
    // Not for the first time while the other rank's kernel waits: rungs/gpu/stream.hpp.
    launch_ping_pong(context.on_device(), side, stream);
    begin.record(stream);
    end.record(stream);
    stream.synchronize();
    side.round_trips = args.shape.round_trips;
    group.barrier();
  }

  void enqueue() {
    launch_ping_pong(context.on_device(), side, stream);
    side.before += side.round_trips;
  }

  bootstrap::Group group;
  gpu::Stream stream;
  gpu::Event begin, end;
  Context context;
  PingPong side{};
};

class PreparedPut final : public ladder::Prepared {
 public:
  PreparedPut(PutArgs args, const ContextOptions& options)
      : args_(std::move(args)),
        members_(kPutRanks),
        team_(kPutRanks) {
    bootstrap::RootOptions root_options;
    root_options.ranks = kPutRanks;
    root_options.interface_or_address = "127.0.0.1";
    const bootstrap::Root root(root_options);
    team_.run([&](int rank) { member(rank).emplace(root.id(), rank, args_, options); });
  }
  ~PreparedPut() override {
    team_.run([&](int rank) { member(rank).reset(); });
  }
  PreparedPut(const PreparedPut&) = delete;
  PreparedPut& operator=(const PreparedPut&) = delete;

  // What the windows held before is what the caller left in its outputs.
  void operator()(gpu::StreamHandle /*ranks have their own*/) override {
    const std::size_t bytes = args_.shape.size_bytes * args_.shape.round_trips;
    team_.run([&](int rank) {
      Member& me = *member(rank);
      std::uint8_t* const output = args_.recv[static_cast<std::size_t>(rank)];
      gpu::copy_async(me.side.windows, output, bytes, me.stream);
      me.stream.synchronize();
      me.group.barrier();
      me.enqueue();
      me.context.synchronize(me.stream);
      gpu::copy_async(output, me.side.windows, bytes, me.stream);
      me.stream.synchronize();
    });
  }

  // Of one round trip, by the clock of rank 0, which throws first and catches last.
  std::optional<double> time_once() override {
    double seconds = 0;
    team_.run([&](int rank) {
      Member& me = *member(rank);
      me.group.barrier();
      me.begin.record(me.stream);
      me.enqueue();
      me.end.record(me.stream);
      me.context.synchronize(me.stream);
      if (rank == 0) seconds = me.end.seconds_since(me.begin);
    });
    return seconds / static_cast<double>(args_.shape.round_trips);
  }

 private:
  std::optional<Member>& member(int rank) { return members_[static_cast<std::size_t>(rank)]; }

  PutArgs args_;
  std::vector<std::optional<Member>> members_;
  ladder::RankTeam team_;  // ends first
};

ladder::Support always(const PutArgs&, const ladder::Machine&) { return {}; }

// Between two GPUs that reach each other, or on one.
ladder::Support needs_mapping(const PutArgs& args, const ladder::Machine&) {
  const gpu::Device& first = args.devices[0];
  const gpu::Device& second = args.devices[1];
  if (first.ordinal() == second.ordinal() ||
      (first.can_access_peer(second) && second.can_access_peer(first)))
    return {};
  return {false, "the two devices do not reach each other's memory"};
}

template <bool kMapPeers, Network kNetwork>
std::unique_ptr<ladder::Prepared> prepare(const PutArgs& args, const ladder::Machine&) {
  return std::make_unique<PreparedPut>(args, options_for(args.shape, kMapPeers, kNetwork));
}

}  // namespace

const std::array<ladder::Rung<PutArgs>, 3> kPutLadder{{
    {"proxy", "the kernel describes its put to a CPU thread, which posts it", &always,
     &prepare<false, Network::kProxy>},
    {"direct", "the peer's heap is mapped: a put is stores, a signal one more", &needs_mapping,
     &prepare<true, Network::kGpuInitiated>},
    {"gpu_initiated", "no mapping: the kernel writes the HCA's requests and rings its doorbell",
     &always, &prepare<false, Network::kGpuInitiated>},
}};

}  // namespace rungs::symmetric
