#pragma once
/// @file trace_clock.hpp
/// The logical clock of a traced cluster (see trace.hpp): a time for every lane, and the times at
/// which whatever lanes wait for was over.

#include <rungs/emulator/trace.hpp>

#include "trace_hooks.hpp"

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

namespace rungs::emulator::trace {

/// When the phases of one object were over: of a barrier, of a warp's collectives; or when a
/// warpgroup's multiplications were done, by their number.
struct Milestones {
  std::vector<Step> times;  // strictly ascending
  Step gathering = 0;       // the latest of what the phase under way consists of

  [[nodiscard]] bool reached(std::size_t index) const { return index < times.size(); }
  void gather(Step at) { gathering = std::max(gathering, at); }
  void reach(Step at) { times.push_back(times.empty() ? at : std::max(at, times.back() + 1)); }
};

/// A place in kernel source and the instruction there.
struct Site {
  const char* name = "";
  Location where;
  bool operator==(const Site& other) const {
    return name == other.name && where.file == other.where.file && where.line == other.where.line;
  }
};

/// One thread.
struct LaneClock {
  Step now = 0;
  // What its last instruction waits for; looked at when it executes the next one.
  const Milestones* awaited = nullptr;
  std::size_t index = 0;
  std::size_t instruction = 0;  // of its warp, that waits
  bool polling = false;
  std::size_t arrived = 0;  // phase of the meeting point where it arrived last without waiting
  // How often it has been at each site: the k-th time is the same warp instruction for all lanes.
  std::vector<std::pair<Site, std::uint32_t>> visits;

  std::uint32_t visit(const Site& site) {
    for (auto& [known, count] : visits) {
      if (known == site) return count++;
    }
    visits.emplace_back(site, 1);
    return 0;
  }
};

}  // namespace rungs::emulator::trace
