#include "catalog/send_recv.hpp"

#include <rungs/bootstrap/group.hpp>
#include <rungs/core/error.hpp>
#include <rungs/core/log.hpp>
#include <rungs/gpu/stream.hpp>
#include <rungs/ladder/rank_team.hpp>
#include <rungs/testing/random.hpp>

#include <limits>
#include <utility>

namespace rungs::transport {
namespace {

constexpr int kRanks = 2;

bootstrap::RootOptions root_options() {
  bootstrap::RootOptions options;
  options.ranks = kRanks;
  options.interface_or_address = "127.0.0.1";
  return options;
}

// Two rank threads with a link between them. A run is the message, from both calls to both ends.
class Message final : public ladder::Prepared {
 public:
  Message(const SendRecv& args, Schedule schedule)
      : args_(args),
        root_(root_options()),
        team_(kRanks) {
    try {
      team_.run([&](int rank) { join(rank, schedule); });
    } catch (...) {
      leave();
      throw;
    }
  }
  ~Message() override { leave(); }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  void operator()(gpu::StreamHandle) override {
    const bool on_device = args_.kind == Kind::kGpuPeer;
    team_.run([&](int rank) {
      Link& link = *ranks_[static_cast<std::size_t>(rank)].link;
      Request request = rank == 0 ? link.send(args_.from, args_.size_bytes, on_device)
                                  : link.receive(args_.to, args_.size_bytes, on_device);
      request.wait();
    });
  }

 private:
  struct Rank {
    std::optional<bootstrap::Group> group;
    std::optional<Context> context;
    std::optional<Link> link;
  };

  void join(int rank, Schedule schedule) {
    Rank& self = ranks_[static_cast<std::size_t>(rank)];
    self.group.emplace(root_.id(), rank, kRanks);
    std::optional<gpu::Device> device;
    if (args_.kind == Kind::kGpuPeer) device = gpu::Device::open(device_of(rank));
    self.context.emplace(*self.group, device ? &*device : nullptr);
    LinkOptions options;
    options.kind = args_.kind;
    options.schedule = schedule;
    self.link = self.context->connect(1 - rank, options);
  }
  void leave() noexcept {
    try {
      team_.run([&](int rank) {
        Rank& self = ranks_[static_cast<std::size_t>(rank)];
        self.link.reset();
        self.context.reset();
        self.group.reset();
      });
    } catch (const std::exception& error) {
      log::warn("send_recv: the ranks did not end well: ", error.what());
    }
  }

  SendRecv args_;
  bootstrap::Root root_;
  std::array<Rank, kRanks> ranks_;
  ladder::RankTeam team_;  // last: its threads end first
};

ladder::Support supports(const SendRecv& args, const ladder::Machine& machine) {
  if (args.kind == Kind::kGpuPeer && machine.device == nullptr)
    return {false, "GPU peer memory needs a device"};
  return {};
}

template <Schedule kSchedule>
std::unique_ptr<ladder::Prepared> prepare(const SendRecv& args, const ladder::Machine&) {
  return std::make_unique<Message>(args, kSchedule);
}

}  // namespace

const std::array<ladder::Rung<SendRecv>, 2> kLadder = {{
    {"blocking", "one slot; fill, carry, drain, one piece after the other, in the caller's thread",
     &supports, &prepare<Schedule::kBlocking>},
    {"pipelined",
     "eight slots with credits and a progress thread: filling, carrying and draining overlap",
     &supports, &prepare<Schedule::kPipelined>},
}};

int device_of(int rank) {
  if (rank == 0 || gpu::Device::count() < 2) return 0;
  return gpu::Device::open(0).can_access_peer(gpu::Device::open(1)) ? 1 : 0;
}

SendRecvProblem::SendRecvProblem(Kind kind, std::size_t size_bytes, std::uint64_t seed)
    : kind_(kind),
      sent_(testing::uniform_f32(size_bytes / sizeof(float), seed)),
      received_(sent_.size()) {
  if (kind_ != Kind::kGpuPeer) return;
  const gpu::Device sender = gpu::Device::open(device_of(0));
  receiver_ = gpu::Device::open(device_of(1));
  device_sent_ = gpu::Buffer<float>(sender, sent_.size());
  device_sent_.upload(sent_);
  device_received_ = gpu::Buffer<float>(*receiver_, sent_.size());
}

SendRecv SendRecvProblem::args() {
  SendRecv args;
  args.kind = kind_;
  args.size_bytes = sent_.size() * sizeof(float);
  args.from = kind_ == Kind::kGpuPeer ? device_sent_.data() : sent_.data();
  args.to = kind_ == Kind::kGpuPeer ? device_received_.data() : received_.data();
  return args;
}

void SendRecvProblem::reset() {
  received_.assign(sent_.size(), std::numeric_limits<float>::quiet_NaN());
  if (kind_ == Kind::kGpuPeer) device_received_.upload(received_);
}

std::vector<float> SendRecvProblem::output() {
  return kind_ == Kind::kGpuPeer ? device_received_.download() : received_;
}

ladder::Reference SendRecvProblem::reference() {
  return {std::vector<double>(sent_.begin(), sent_.end()), {}};
}

std::string SendRecvProblem::describe(std::size_t word) {
  return concat("word ", word, " of ", sent_.size(), " sent by ", to_string(kind_));
}

}  // namespace rungs::transport
