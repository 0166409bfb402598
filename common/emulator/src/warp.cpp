#include "warp.hpp"

#include "report.hpp"
#include "sanitizer.hpp"
#include "trace_hooks.hpp"
#include "worker.hpp"

#include <bit>

namespace rungs::emulator {
namespace {

using model::Collective;

// The meeting with this mask that is under way, or a free one.
WarpMeeting* find_meeting(Warp& warp, std::uint32_t mask) {
  WarpMeeting* free = nullptr;
  for (WarpMeeting& meeting : warp.meetings) {
    if (meeting.arrived == 0) {
      if (free == nullptr) free = &meeting;
    } else if (meeting.mask == mask) {
      return &meeting;
    }
  }
  return free;
}

std::uint32_t source_lane(Collective kind, std::uint32_t lane, std::uint32_t argument) {
  switch (kind) {
    case Collective::kShuffleIndex:
      return argument & 31;
    case Collective::kShuffleXor:
      return (lane ^ argument) & 31;
    case Collective::kShuffleDown:
      return lane + argument < 32 ? lane + argument : lane;
    case Collective::kShuffleUp:
      return lane >= argument ? lane - argument : lane;
    default:
      return lane;
  }
}

// All lanes are here: computes every lane's result.
void complete(const WarpMeeting& meeting, Thread* lanes, Location where) {
  const std::uint32_t mask = meeting.mask;
  std::uint32_t votes = 0;
  if (meeting.kind == Collective::kBallot || meeting.kind == Collective::kAny ||
      meeting.kind == Collective::kAll) {
    for (std::uint32_t rest = mask; rest != 0; rest &= rest - 1) {
      const int lane = std::countr_zero(rest);
      if (meeting.values[lane] != 0) votes |= 1u << lane;
    }
  }
  for (std::uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(rest));
    std::uint64_t result = 0;
    switch (meeting.kind) {
      case Collective::kBallot:
        result = votes;
        break;
      case Collective::kAny:
        result = votes != 0;
        break;
      case Collective::kAll:
        result = votes == mask;
        break;
      case Collective::kElect:
        result = lane == static_cast<std::uint32_t>(std::countr_zero(mask));
        break;
      case Collective::kSyncWarp:
        break;
      default: {
        const std::uint32_t source = source_lane(meeting.kind, lane, meeting.arguments[lane]);
        if ((mask >> source & 1) == 0) {
          fail(where, "the mask must hold every lane that is read",
               "shuffle: lane %u reads lane %u outside mask %08x", lane, source, mask);
        }
        result = meeting.values[source];
      }
    }
    lanes[lane].value = result;
  }
}

const char* name_of(Collective kind) {
  constexpr const char* kNames[] = {"shfl.idx", "shfl.bfly",     "shfl.down",
                                    "shfl.up",  "vote.ballot",   "vote.any",
                                    "vote.all", "bar.warp.sync", "elect.sync"};
  return kNames[static_cast<int>(kind)];
}

}  // namespace

namespace model {

std::uint64_t warp_collective(Collective kind, std::uint32_t mask, std::uint64_t value,
                              std::uint32_t argument, Location where) {
  const sanitizer::Mute mute;
  Thread& self = this_thread();
  Block& block = self.home();
  const unsigned warp_index = self.index() / 32;
  const unsigned lane = self.index() % 32;
  const unsigned first = warp_index * 32;
  if (block.thread_count - first < 32)
    mask &= (1u << (block.thread_count - first)) - 1;  // a last warp that is not full
  if ((mask >> lane & 1) == 0) {
    fail(where, "the mask must hold the calling lane",
         "lane %u calls %s with mask %08x, which lacks it", lane, name_of(kind), mask);
  }
  WarpMeeting* meeting = find_meeting(block.warps[warp_index], mask);
  if (meeting == nullptr) {
    fail(where, "masks of one warp's collectives that overlap",
         "more than %d collectives of one warp are under way", Warp::kMeetings);
  }
  if (meeting->arrived == 0) {
    meeting->mask = mask;
    meeting->kind = kind;
  } else if (meeting->kind != kind) {
    fail(where, "lanes of a warp on different paths, and syncwarp() before they meet again",
         "diverged warp: %s meets %s of other lanes on mask %08x", name_of(kind),
         name_of(meeting->kind), mask);
  }
  trace::meets(name_of(kind), meeting, true, true, where);
  meeting->values[lane] = value;
  meeting->arguments[lane] = argument;
  meeting->arrived |= 1u << lane;
  const bool orders_memory = kind == Collective::kSyncWarp;
  if (orders_memory) sanitizer::release(&meeting->token);
  if (meeting->arrived == mask) {
    complete(*meeting, &block.threads[first], where);
    meeting->arrived = 0;
    trace::met(meeting);
    this_worker->progress++;
    const std::uint64_t others = mask & ~(1u << lane);
    block.ready.words[first / 64] |= others << (first % 64);
  } else {
    wait_for(self, WaitKind::kCollective, mask, 0, where);
  }
  if (orders_memory) sanitizer::acquire(&meeting->token);
  return self.value;
}

}  // namespace model
}  // namespace rungs::emulator
