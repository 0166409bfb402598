#include "catalog/prepared.hpp"

#include <rungs/core/error.hpp>
#include <rungs/gpu/stream.hpp>
#include <rungs/ladder/rank_team.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

namespace rungs::collectives {
namespace {

/// One rank's ends of things.
struct Member {
  Member(const bootstrap::UniqueId& id, int rank, const gpu::Device& device, KernelTable table,
         const std::shared_ptr<const Tuner>& tuner)
      : group(id, rank, kCatalogRanks),
        stream(device),
        begin(device),
        end(device),
        communicator(group, device, table, tuner) {
    // Not for the first time while another rank's kernel waits: rungs/gpu/stream.hpp.
    begin.record(stream);
    end.record(stream);
    stream.synchronize();
    group.barrier();
  }
  bootstrap::Group group;
  gpu::Stream stream;
  gpu::Event begin, end;
  Communicator communicator;
};

class PreparedCollective final : public ladder::Prepared {
 public:
  PreparedCollective(CollectiveArgs args, KernelTable table,
                     const std::shared_ptr<const Tuner>& tuner)
      : args_(std::move(args)),
        members_(kCatalogRanks),
        team_(kCatalogRanks) {
    bootstrap::RootOptions options;
    options.ranks = kCatalogRanks;
    options.interface_or_address = "127.0.0.1";
    const bootstrap::Root root(options);
    team_.run([&](int rank) {
      member(rank).emplace(root.id(), rank, args_.devices[static_cast<std::size_t>(rank)], table,
                           tuner);
    });
  }
  ~PreparedCollective() override {
    team_.run([&](int rank) { member(rank).reset(); });
  }
  PreparedCollective(const PreparedCollective&) = delete;
  PreparedCollective& operator=(const PreparedCollective&) = delete;

  void operator()(gpu::StreamHandle /*ranks have their own*/) override {
    team_.run([&](int rank) {
      enqueue(rank);
      member(rank)->communicator.synchronize(member(rank)->stream);
    });
  }

  // The mean of several in a row, on the slowest rank: what one costs inside a step.
  std::optional<double> time_once() override {
    constexpr int kInARow = RUNGS_GPU_CUDA ? 20 : 1;
    std::array<double, kCatalogRanks> seconds{};
    team_.run([&](int rank) {
      Member& me = *member(rank);
      me.group.barrier();
      me.begin.record(me.stream);
      for (int i = 0; i < kInARow; ++i) enqueue(rank);
      me.end.record(me.stream);
      me.communicator.synchronize(me.stream);
      seconds[static_cast<std::size_t>(rank)] = me.end.seconds_since(me.begin) / kInARow;
    });
    return *std::max_element(seconds.begin(), seconds.end());
  }

 private:
  std::optional<Member>& member(int rank) { return members_[static_cast<std::size_t>(rank)]; }

  void enqueue(int rank) {
    const auto index = static_cast<std::size_t>(rank);
    const CollectiveShape& shape = args_.shape;
    Communicator& communicator = member(rank)->communicator;
    const gpu::StreamHandle stream = member(rank)->stream;
    const void* const send = args_.send[index];
    void* const recv = args_.recv[index];
    switch (shape.what) {
      case Collective::kAllReduce:
        return communicator.all_reduce(send, recv, shape.count, shape.dtype, shape.op, stream);
      case Collective::kAllGather:
        return communicator.all_gather(send, recv, shape.count, shape.dtype, stream);
      case Collective::kReduceScatter:
        return communicator.reduce_scatter(send, recv, shape.count, shape.dtype, shape.op, stream);
      case Collective::kBroadcast:
        return communicator.broadcast(send, recv, shape.count, shape.dtype, shape.root, stream);
      case Collective::kAllToAll:
        return communicator.all_to_all(send, recv, shape.count, shape.dtype, stream);
    }
  }

  CollectiveArgs args_;
  std::vector<std::optional<Member>> members_;
  ladder::RankTeam team_;  // ends first
};

}  // namespace

std::unique_ptr<ladder::Prepared> prepare_collective(const CollectiveArgs& args, KernelTable table,
                                                     const std::shared_ptr<const Tuner>& tuner) {
  return std::make_unique<PreparedCollective>(args, table, tuner);
}

}  // namespace rungs::collectives
