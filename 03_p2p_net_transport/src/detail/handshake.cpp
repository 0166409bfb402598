#include "detail/handshake.hpp"

#include "detail/context_state.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

namespace rungs::transport::detail {
namespace {

constexpr std::uint64_t kTag = 0x72756e67732d3033;  // "rungs-03": this stage's messages
constexpr std::uint32_t kVersion = 1;
constexpr std::array kBestFirst = {Kind::kGpuPeer, Kind::kSharedMemory, Kind::kVerbs,
                                   Kind::kSocket};

struct Hello {
  std::uint32_t magic = 0x52473033;
  std::uint32_t version = kVersion;
  std::int32_t kind = -1;  // -1: the best
  std::int32_t schedule = 0;
  std::uint64_t slot_bytes = 0;
  std::uint64_t tag = 0;
  std::array<std::array<char, 120>, 4> why_not{};  // by kind; empty: can
};

std::string kind_text(std::int32_t kind) {
  return kind < 0 ? "the best" : to_string(static_cast<Kind>(kind));
}

template <class T>
void require_equal(const char* what, const T& mine, const T& theirs, int rank, int peer) {
  RUNGS_REQUIRE(mine == theirs, "connect: the ends disagree about ", what, ": rank ", rank,
                " says ", mine, ", rank ", peer, " says ", theirs,
                "; call connect() with equal options, in the same order on both");
}

// Objects on their way to another rank of this process.
struct Exchange {
  std::mutex mutex;
  std::uint64_t next = 1;
  std::map<std::uint64_t, std::shared_ptr<void>> objects;
};
Exchange& exchange_of_process() {
  static Exchange exchange;
  return exchange;
}

}  // namespace

SetUp::SetUp(ContextState& context, int peer, const LinkOptions& options)
    : context_(context),
      peer_(peer),
      options_(options),
      deadline_(Deadline::after(std::chrono::duration<double>(options.timeout_seconds))) {
  const bootstrap::Group& group = context.group();
  RUNGS_REQUIRE(peer >= 0 && peer < group.size() && peer != group.rank(), "connect: peer is ", peer,
                "; it must be a rank of the ", group.size(), " other than this one, ",
                group.rank());
  constexpr std::size_t kLeast = 64;
  constexpr std::size_t kMost = std::size_t{64} << 20;
  RUNGS_REQUIRE(options.slot_bytes >= kLeast && options.slot_bytes <= kMost,
                "connect: slot_bytes is ", options.slot_bytes, "; it must be ", kLeast, " to ",
                kMost);
}

bool SetUp::same_process() const { return context_.group().same_process(peer_); }

unsigned SetUp::slots() const noexcept {
  return options_.schedule == Schedule::kBlocking ? 1 : kSlots;
}

Kind SetUp::agree() {
  const int rank = context_.group().rank();
  Hello mine;
  if (options_.kind) mine.kind = static_cast<std::int32_t>(*options_.kind);
  mine.schedule = static_cast<std::int32_t>(options_.schedule);
  mine.slot_bytes = options_.slot_bytes;
  mine.tag = options_.tag;
  for (std::size_t kind = 0; kind < mine.why_not.size(); ++kind) {
    const std::string_view why = context_.why_not(peer_, static_cast<Kind>(kind));
    why.copy(mine.why_not[kind].data(), mine.why_not[kind].size() - 1);
  }
  const Hello theirs = exchange(mine);
  require_equal("the protocol", mine.magic, theirs.magic, rank, peer_);
  require_equal("the version", mine.version, theirs.version, rank, peer_);
  require_equal("the tag", mine.tag, theirs.tag, rank, peer_);
  require_equal("the kind", kind_text(mine.kind), kind_text(theirs.kind), rank, peer_);
  require_equal("the schedule", std::string(to_string(static_cast<Schedule>(mine.schedule))),
                std::string(to_string(static_cast<Schedule>(theirs.schedule))), rank, peer_);
  require_equal("slot_bytes", mine.slot_bytes, theirs.slot_bytes, rank, peer_);
  const auto why_not = [&](Kind kind) {
    const auto index = static_cast<std::size_t>(kind);
    std::string why;
    if (mine.why_not[index][0] != 0) why = concat("rank ", rank, ": ", mine.why_not[index].data());
    if (theirs.why_not[index][0] != 0) {
      why += concat(why.empty() ? "" : "; ", "rank ", peer_, ": ", theirs.why_not[index].data());
    }
    return why;
  };
  if (options_.kind) {
    const std::string why = why_not(*options_.kind);
    if (!why.empty())
      RUNGS_THROW(kUnsupported, "connect by ", to_string(*options_.kind), ": ", why);
    return *options_.kind;
  }
  const auto* const best = std::find_if(kBestFirst.begin(), kBestFirst.end(),
                                        [&](Kind kind) { return why_not(kind).empty(); });
  RUNGS_ASSERT(best != kBestFirst.end(), "no carrier between ranks ", rank, " and ", peer_);
  return *best;
}

Ends SetUp::build(const std::function<Ends()>& build) {
  try {
    Ends ends = build();
    (void)exchange(std::uint8_t{1});
    return ends;
  } catch (const Error& error) {
    if (!told_peer_) {
      told_peer_ = true;
      try {
        say('e', std::as_bytes(std::span(error.message())));
      } catch (const Error&) {  // the peer is gone or does not listen: the first error matters
      }
    }
    throw;
  }
}

void SetUp::say(char kind, std::span<const std::byte> bytes) {
  std::vector<std::byte> message{static_cast<std::byte>(kind)};
  message.insert(message.end(), bytes.begin(), bytes.end());
  context_.group().send(peer_, kTag, message, deadline_);
}

std::vector<std::byte> SetUp::exchange(std::span<const std::byte> mine) {
  say('d', mine);
  std::vector<std::byte> theirs = context_.group().receive(peer_, kTag, deadline_);
  RUNGS_ASSERT(!theirs.empty(), "set-up with rank ", peer_, ": an empty message came");
  const bool failed = static_cast<char>(theirs.front()) == 'e';
  theirs.erase(theirs.begin());
  if (failed) {
    told_peer_ = true;  // it gave up before this end did
    RUNGS_THROW(kSystem, "connect: rank ", peer_, " could not build its end: ",
                std::string_view(reinterpret_cast<const char*>(theirs.data()), theirs.size()));
  }
  return theirs;
}

int SetUp::exchange_fd(int mine) {
  (void)exchange(std::uint8_t{1});  // a peer that failed says so here, and sends no descriptor
  context_.group().send_fd(peer_, kTag, mine, deadline_);
  return context_.group().receive_fd(peer_, kTag, deadline_);
}

std::shared_ptr<void> SetUp::exchange_object(std::shared_ptr<void> mine) {
  Exchange& objects = exchange_of_process();
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(objects.mutex);
    number = objects.next++;
    objects.objects.emplace(number, std::move(mine));
  }
  std::uint64_t theirs = 0;
  try {
    theirs = exchange(number);
  } catch (const Error&) {
    const std::lock_guard lock(objects.mutex);
    objects.objects.erase(number);
    throw;
  }
  const std::lock_guard lock(objects.mutex);
  const auto node = objects.objects.extract(theirs);
  RUNGS_ASSERT(!node.empty(), "set-up with rank ", peer_, ": object ", theirs, " is not there");
  return std::move(node).mapped();
}

void SetUp::until(const std::function<bool()>& ready, const char* what) {
  Backoff backoff;
  while (!ready()) {
    context_.throw_if_lost(peer_);
    if (deadline_.passed()) {
      RUNGS_THROW(kTimeout, "connect: rank ", peer_, ": waited ", deadline_.waited().count(),
                  " s for ", what);
    }
    backoff.pause();
  }
}

}  // namespace rungs::transport::detail
