#include "gathering.hpp"

#include "report.hpp"
#include "sanitizer.hpp"
#include "trace_hooks.hpp"
#include "worker.hpp"

#include <bit>
#include <cstdio>
#include <cstring>

namespace rungs::emulator {
namespace {

// Text that stands on the stack: fail() does not return, so a std::string would leak.
struct Text {
  char characters[128] = "";
  [[nodiscard]] const char* c_str() const { return characters; }
};

// A set of lanes: "3", "0-7, 9".
Text lanes_text(std::uint32_t lanes) {
  Text text;
  std::size_t size = 0;
  for (unsigned lane = 0; lane < 32; lane++) {
    if ((lanes >> lane & 1) == 0) continue;
    unsigned last = lane;
    while (last < 31 && (lanes >> (last + 1) & 1) != 0) last++;
    char* to = text.characters + size;
    const std::size_t room = sizeof(text.characters) - size;
    const char* comma = size == 0 ? "" : ", ";
    const int written = last == lane ? std::snprintf(to, room, "%s%u", comma, lane)
                                     : std::snprintf(to, room, "%s%u-%u", comma, lane, last);
    size += static_cast<std::size_t>(written);  // 16 lanes apart take 70 characters
    lane = last;
  }
  return text;
}

bool same_text(const char* a, const char* b) { return a == b || std::strcmp(a, b) == 0; }

std::uint32_t ended_lanes(const Block& block, unsigned first) {
  return static_cast<std::uint32_t>(block.ended.words[first / 64] >> (first % 64));
}

Text place(Location where) {
  const char* slash = std::strrchr(where.file, '/');
  Text text;
  std::snprintf(text.characters, sizeof(text.characters), "%s:%d",
                slash != nullptr ? slash + 1 : where.file, where.line);
  return text;
}

Gathering* find(Warp& warp, std::uint32_t mask) {
  Gathering* free = nullptr;
  for (Gathering& gathering : warp.gatherings) {
    if (gathering.arrived == 0) {
      if (free == nullptr) free = &gathering;
    } else if (gathering.mask == mask) {
      return &gathering;
    }
  }
  return free;
}

// Lanes of the mask that wait in another collective for this lane: neither will end.
void check_not_elsewhere(Warp& warp, const char* name, std::uint32_t mask, unsigned lane,
                         Location where) {
  constexpr const char* kHint =
      "lanes of a warp on different paths, and syncwarp() before they meet again";
  for (const Gathering& other : warp.gatherings) {
    if ((other.arrived & mask) == 0 || (other.mask >> lane & 1) == 0 || other.mask == mask)
      continue;
    fail(where, kHint,
         "diverged warp: %s on mask %08x, while lanes %s wait in %s on mask %08x at %s, which "
         "needs lane %u too",
         name, mask, lanes_text(other.arrived).c_str(), other.name, other.mask,
         place(other.where).c_str(), lane);
  }
  for (const WarpMeeting& other : warp.meetings) {
    if ((other.arrived & mask) == 0 || (other.mask >> lane & 1) == 0) continue;
    fail(where, kHint,
         "diverged warp: %s by lane %u, while lanes %s wait in a shuffle, vote or syncwarp on mask "
         "%08x, which needs it too",
         name, lane, lanes_text(other.arrived).c_str(), other.mask);
  }
}

void meet(const char* name, bool aligned, std::uint32_t mask, void* operands, Complete complete,
          Location where) {
  Thread& self = this_thread();
  Block& block = self.home();
  Warp& warp = block.warps[self.index() / 32];
  const unsigned lane = self.index() % 32, first = self.index() - lane;
  check_not_elsewhere(warp, name, mask, lane, where);
  Gathering* gathering = find(warp, mask);
  if (gathering == nullptr) {
    fail(where, "masks of one warp's collectives that overlap",
         "more than %d collectives of one warp are under way", Gathering::kOfAWarp);
  }
  if (gathering->arrived == 0) {
    gathering->name = name;
    gathering->aligned = aligned;
    gathering->mask = mask;
    gathering->where = where;
  } else if (!same_text(gathering->name, name) ||
             (aligned && (gathering->where.line != where.line ||
                          !same_text(gathering->where.file, where.file)))) {
    fail(where, "lanes of a warp on different paths, and syncwarp() before they meet again",
         "diverged warp: %s meets %s of lanes %s at %s%s", name, gathering->name,
         lanes_text(gathering->arrived).c_str(), place(gathering->where).c_str(),
         aligned ? "; .aligned: all lanes must execute the same instruction" : "");
  }
  trace::meets(name, gathering, true, true, where);
  gathering->operands[lane] = operands;
  gathering->arrived |= 1u << lane;
  if (gathering->arrived != mask) {
    wait_for(self, WaitKind::kGathering, static_cast<std::uint64_t>(gathering - warp.gatherings), 0,
             where);
    return;
  }
  complete(*gathering, where);
  gathering->arrived = 0;
  trace::met(gathering);
  this_worker->progress++;
  const std::uint64_t others = mask & ~(1u << lane);
  block.ready.words[first / 64] |= others << (first % 64);
}

}  // namespace

void gather(const char* name, std::uint32_t mask, void* operands, Complete complete,
            Location where) {
  const Thread& self = this_thread();
  const Block& block = self.home();
  const unsigned lane = self.index() % 32, first = self.index() - lane;
  if (block.thread_count - first < 32) mask &= (1u << (block.thread_count - first)) - 1;
  if ((mask >> lane & 1) == 0) {
    fail(where, "the mask must hold the calling lane",
         "lane %u calls %s with mask %08x, which lacks it", lane, name, mask);
  }
  if (const std::uint32_t ended = mask & ended_lanes(block, first); ended != 0) {
    fail(where, "a return before the collective, or a mask that holds too much",
         "%s on mask %08x, of which lanes %s have ended", name, mask, lanes_text(ended).c_str());
  }
  meet(name, false, mask, operands, complete, where);
}

void gather_aligned(const char* name, void* operands, Complete complete, Location where) {
  const Thread& self = this_thread();
  const Block& block = self.home();
  const unsigned first = self.index() - self.index() % 32;
  if (block.thread_count - first < 32) {
    fail(where, "block sizes that are multiples of 32",
         "%s by warp %u, which has only %u of its 32 threads; .aligned needs the whole warp", name,
         first / 32, block.thread_count - first);
  }
  if (const std::uint32_t ended = ended_lanes(block, first); ended != 0) {
    fail(where, "a return before the instruction: guard what follows it instead",
         "%s by a warp of which lanes %s have ended; .aligned needs the whole warp", name,
         lanes_text(ended).c_str());
  }
  meet(name, true, ~0u, operands, complete, where);
}

std::string describe_gathering(const Thread& thread) {
  const Block& block = thread.home();
  const Gathering& gathering = block.warps[thread.index() / 32].gatherings[thread.value];
  const std::uint32_t missing = gathering.mask & ~gathering.arrived;
  const std::uint32_t ended = missing & ended_lanes(block, thread.index() - thread.index() % 32u);
  std::string text = std::string(gathering.name) + " of its warp, ";
  text += gathering.aligned ? "which is .aligned" : "a collective";
  text += std::string(" {lanes ") + lanes_text(missing).c_str() + " are missing";
  if (ended != 0) text += std::string(", lanes ") + lanes_text(ended).c_str() + " have ended";
  return text + "}";
}

}  // namespace rungs::emulator
