#include <rungs/bootstrap/group.hpp>

#include "bootstrap/id_content.hpp"
#include "bootstrap/member.hpp"
#include "bootstrap/root_server.hpp"
#include "bootstrap/subgroup.hpp"

#include <rungs/core/log.hpp>
#include <rungs/core/random_bytes.hpp>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace rungs::bootstrap {

using detail::Member;

namespace {

struct Way {
  detail::FrameType type;
  void (*run)(Member&, const detail::Call&, std::span<const std::byte>, std::span<std::byte>);
};

Way way_of(AllGather form) {
  switch (form) {
    case AllGather::kStar:
      return {detail::FrameType::kGatherStar, detail::star_all_gather};
    case AllGather::kRing:
      return {detail::FrameType::kGatherRing, detail::ring_all_gather};
    case AllGather::kBothWays:
      return {detail::FrameType::kGatherBothWays, detail::both_ways_all_gather};
  }
  RUNGS_THROW(kInvalidArgument, "group: all_gather has no form ", int(form));
}

}  // namespace

struct Root::State {
  explicit State(const detail::RootServer::Setup& setup)
      : owner(::getpid()),
        server(std::make_unique<detail::RootServer>(setup)) {}
  ~State() {
    // A forked child has no thread to join, and the rendezvous is not its own.
    if (owner != ::getpid()) (void)server.release();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  pid_t owner;
  std::unique_ptr<detail::RootServer> server;
  UniqueId id;
};

Root::Root(const RootOptions& options) {
  RUNGS_REQUIRE(options.ranks >= 1, "root: ranks must be at least 1, got ", options.ranks);
  detail::RootServer::Setup setup;
  setup.listen = detail::choose_address(options.interface_or_address).with_port(options.port);
  if (setup.listen.is_any()) setup.reachable = detail::choose_address("", setup.listen.family());
  if (options.secret.empty()) {
    fill_random(setup.key);
  } else {
    setup.key = detail::key_of(options.secret);
  }
  setup.ranks = options.ranks;
  setup.timeout_seconds = options.timeout_seconds;
  state_ = std::make_unique<State>(setup);
  state_->id = detail::encode({state_->server->address(), options.ranks, setup.key});
}

Root::~Root() = default;

const UniqueId& Root::id() const noexcept { return state_->id; }

void Root::wait(const Deadline& deadline) { state_->server->wait(deadline); }

struct Group::State {
  State(detail::Joined joined, int rank, int size, const GroupOptions& given)
      : options(given),
        owner(::getpid()) {
    member = std::make_unique<Member>(std::move(joined), rank, size, given.host_id);
  }
  ~State() {
    // A forked child has no control thread to say goodbye with, and the group is not its own.
    if (owner != ::getpid()) (void)member.release();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  [[nodiscard]] Deadline until(const std::optional<Deadline>& given) const {
    return given ? *given : Deadline::after(std::chrono::duration<double>(options.timeout_seconds));
  }
  [[nodiscard]] std::optional<Lost> lost() const;
  void abort(const std::string& reason) const;

  GroupOptions options;
  pid_t owner;
  std::unique_ptr<Member> member;
  std::vector<int> local_ranks;
  // Of a subgroup:
  const State* above = nullptr;
  std::vector<int> members;  // this group's ranks as `above` numbers them
};

std::optional<Lost> Group::State::lost() const {
  if (const detail::News* news = member->mailbox().news()) return news->lost;
  if (above == nullptr) return std::nullopt;
  std::optional<Lost> lost = above->lost();
  if (!lost) return std::nullopt;
  const auto place = std::find(members.begin(), members.end(), lost->rank);
  lost->rank = place == members.end() ? -1 : static_cast<int>(place - members.begin());
  lost->reason = concat("in the group above this subgroup: ", lost->reason);
  return lost;
}

void Group::State::abort(const std::string& reason) const {
  member->service().spread(
      {ErrorCode::kPeerLost,
       {member->rank(), concat("rank ", member->rank(), " gave up: ", reason)}});
  if (above != nullptr) above->abort(reason);
}

Group Group::open(const detail::JoinRequest& request, const GroupOptions& options) {
  Group group;
  group.state_ = std::make_unique<State>(join(request), request.rank, request.size, options);
  Member& member = *group.state_->member;
  member.meet(request.deadline);
  for (int rank = 0; rank < member.size(); ++rank) {
    if (member.record(rank).host == member.record(member.rank()).host)
      group.state_->local_ranks.push_back(rank);
  }
  return group;
}

Group::Group() = default;

Group::Group(const UniqueId& id, int rank, int size, const GroupOptions& options) {
  RUNGS_REQUIRE(size >= 1, "group: size must be at least 1, got ", size);
  RUNGS_REQUIRE(rank >= 0 && rank < size, "group: rank ", rank, " is not one of ", size, " ranks");
  const detail::IdContent content = detail::decode(id);
  detail::JoinRequest request;
  request.roots = {content.root};
  request.key = content.key;
  request.rank = rank;
  request.size = size;
  request.deadline = Deadline::after(std::chrono::duration<double>(options.timeout_seconds));
  *this = open(request, options);
}

Group::~Group() = default;
Group::Group(Group&&) noexcept = default;
Group& Group::operator=(Group&&) noexcept = default;

int Group::rank() const noexcept { return state_->member->rank(); }
int Group::size() const noexcept { return state_->member->size(); }
const std::vector<int>& Group::local_ranks() const noexcept { return state_->local_ranks; }

bool Group::same_host(int rank) const {
  const Member& member = *state_->member;
  member.require_rank(rank, "same_host");
  return member.record(rank).host == member.record(member.rank()).host;
}

bool Group::same_process(int rank) const {
  const Member& member = *state_->member;
  member.require_rank(rank, "same_process");
  return member.record(rank).process == member.record(member.rank()).process;
}

std::vector<std::vector<int>> Group::hosts() const {
  const Member& member = *state_->member;
  std::vector<std::vector<int>> hosts;
  for (int rank = 0; rank < member.size(); ++rank) {
    const auto same = [&](const std::vector<int>& host) {
      return member.record(host.front()).host == member.record(rank).host;
    };
    const auto found = std::find_if(hosts.begin(), hosts.end(), same);
    if (found == hosts.end()) {
      hosts.push_back({rank});
    } else {
      found->push_back(rank);
    }
  }
  return hosts;
}

Group Group::subgroup(const std::vector<int>& members) {
  // The leader's rendezvous lasts until it has joined, and then all have.
  const detail::SubgroupStart start =
      detail::start_subgroup(*state_->member, members, state_->options.timeout_seconds);
  Group group = open(start.request, state_->options);
  group.state_->above = state_.get();
  group.state_->members = members;
  return group;
}

void Group::all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                       const std::optional<Deadline>& deadline) {
  Member& member = *state_->member;
  RUNGS_REQUIRE(all.size() == mine.size() * static_cast<std::size_t>(member.size()),
                "all_gather: the result has ", all.size(), " bytes, ", member.size(), " blocks of ",
                mine.size(), " bytes need ", mine.size() * static_cast<std::size_t>(member.size()));
  const Way way = way_of(state_->options.all_gather);
  const detail::Call call = member.begin(way.type, mine.size(), state_->until(deadline));
  way.run(member, call, mine, all);
  member.end(call);
}

void Group::barrier(const std::optional<Deadline>& deadline) {
  Member& member = *state_->member;
  const detail::Call call = member.begin(detail::FrameType::kBarrier, 0, state_->until(deadline));
  detail::dissemination_barrier(member, call);
  member.end(call);
}

void Group::send(int to, std::uint64_t tag, std::span<const std::byte> message,
                 const std::optional<Deadline>& deadline) {
  detail::send_message(*state_->member, to, tag, message, state_->until(deadline));
}

std::vector<std::byte> Group::receive(int from, std::uint64_t tag,
                                      const std::optional<Deadline>& deadline) {
  return detail::receive_message(*state_->member, from, tag, state_->until(deadline));
}

void Group::send_fd(int to, std::uint64_t tag, int fd, const std::optional<Deadline>& deadline) {
  detail::send_descriptor(*state_->member, to, tag, fd, state_->until(deadline));
}

int Group::receive_fd(int from, std::uint64_t tag, const std::optional<Deadline>& deadline) {
  return detail::receive_descriptor(*state_->member, from, tag, state_->until(deadline));
}

std::optional<Lost> Group::lost() const { return state_->lost(); }

void Group::check() const {
  if (const std::optional<Lost> lost = this->lost())
    RUNGS_THROW(kPeerLost, "rank ", rank(), ": ", lost->reason);
}

void Group::abort(const std::string& reason) noexcept {
  try {
    state_->abort(reason);
  } catch (const std::exception& error) {
    log::error("bootstrap: abort: ", error.what());
  }
}

}  // namespace rungs::bootstrap
