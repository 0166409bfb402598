#include "carriers/carriers.hpp"
#include "detail/context_state.hpp"
#include "detail/handshake.hpp"
#include "detail/link_impl.hpp"
#include "detail/staging.hpp"

#include <rungs/core/error.hpp>
#include <rungs/core/log.hpp>
#include <rungs/core/suggest.hpp>

#include <array>
#include <utility>
#include <vector>

namespace rungs::transport {

const char* to_string(Kind kind) noexcept {
  switch (kind) {
    case Kind::kSharedMemory:
      return "shared_memory";
    case Kind::kSocket:
      return "socket";
    case Kind::kVerbs:
      return "verbs";
    case Kind::kGpuPeer:
      return "gpu_peer";
  }
  return "unknown kind";
}

const char* to_string(Schedule schedule) noexcept {
  return schedule == Schedule::kBlocking ? "blocking" : "pipelined";
}

Kind kind_from_string(std::string_view name) {
  std::vector<std::string> names;
  for (const Kind kind : {Kind::kSharedMemory, Kind::kSocket, Kind::kVerbs, Kind::kGpuPeer}) {
    if (name == to_string(kind)) return kind;
    names.emplace_back(to_string(kind));
  }
  RUNGS_THROW(kInvalidArgument, "no kind of transport is called '", name,
              "'; there are shared_memory, socket, verbs and gpu_peer", did_you_mean(name, names));
}

namespace detail {

bool concerns(const bootstrap::Lost& lost, int peer) noexcept {
  return lost.rank == peer || lost.rank < 0;
}

Error lost_error(const bootstrap::Lost& lost) {
  const std::string who = lost.rank < 0 ? std::string("a rank") : concat("rank ", lost.rank);
  return {ErrorCode::kPeerLost, concat(who, " is gone: ", lost.reason), __FILE__, __LINE__};
}

ContextState::ContextState(bootstrap::Group& group, const gpu::Device* device) : group_(group) {
  if (device != nullptr) device_ = *device;
}

ContextState::~ContextState() = default;

void ContextState::throw_if_lost(int peer) const {
  const std::optional<bootstrap::Lost> lost = group_.lost();
  if (lost && concerns(*lost, peer)) throw lost_error(*lost);
}

std::string_view ContextState::why_not(int peer, Kind kind) const {
  if (peer < 0 || peer >= group_.size()) return "there is no such rank";
  if (peer == group_.rank()) return "a rank has no link to itself";
  const bool same_host = group_.same_host(peer);
  switch (kind) {
    case Kind::kSharedMemory:
      return same_host ? "" : "the ranks are on different hosts";
    case Kind::kSocket:
    case Kind::kVerbs:
      return "";
    case Kind::kGpuPeer:
      if (!device_) return "its context was made without a device";
      return same_host ? "" : "the ranks are on different hosts";
  }
  return "there is no such kind";
}

ProgressThread& ContextState::progress() {
  const std::lock_guard lock(mutex_);
  if (!progress_) {
    progress_ = std::make_unique<ProgressThread>([this] { return group_.lost(); },
                                                 [this] {
                                                   log::set_rank(group_.rank());
                                                   if (device_) device_->make_current();
                                                 });
  }
  return *progress_;
}

namespace {

Ends build_ends(SetUp& set_up, Kind kind) {
  switch (kind) {
    case Kind::kSharedMemory:
      return connect_shared_memory(set_up);
    case Kind::kSocket:
      return connect_socket(set_up);
    case Kind::kVerbs:
      return connect_verbs(set_up);
    case Kind::kGpuPeer:
      return connect_gpu_peer(set_up);
  }
  RUNGS_THROW(kInternal, "no carrier of kind ", static_cast<int>(kind));
}

}  // namespace
}  // namespace detail

Context::Context(bootstrap::Group& group, const gpu::Device* device)
    : state_(std::make_shared<detail::ContextState>(group, device)) {}
Context::~Context() = default;

ladder::Support Context::supports(int peer, Kind kind) const {
  const std::string_view why = state_->why_not(peer, kind);
  return {why.empty(), why};
}

void Context::add_verbs_device(const std::string& name, const verbs::Device& device) {
  state_->add_hca(name, device);
}

Link Context::connect(int peer, const LinkOptions& options) {
  detail::SetUp set_up(*state_, peer, options);
  const Kind kind = set_up.agree();
  detail::LinkParts parts;
  parts.peer = peer;
  parts.kind = kind;
  parts.slot_bytes = options.slot_bytes;
  parts.timeout_seconds = options.timeout_seconds;
  parts.ends = set_up.build([&] { return detail::build_ends(set_up, kind); });
  parts.context = state_;
  if (kind != Kind::kGpuPeer && state_->device()) {
    parts.ends.outlet = std::make_unique<detail::StagedOutlet>(
        std::move(parts.ends.outlet), *state_->device(), options.slot_bytes);
    parts.ends.inlet = std::make_unique<detail::StagedInlet>(std::move(parts.ends.inlet),
                                                             *state_->device(), options.slot_bytes);
  }
  return Link(options.schedule == Schedule::kBlocking
                  ? detail::make_blocking_link(std::move(parts))
                  : detail::make_pipelined_link(std::move(parts)));
}

}  // namespace rungs::transport
