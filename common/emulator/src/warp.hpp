#pragma once
/// @file warp.hpp
/// Meeting points of the lanes of a warp: shuffles, votes, syncwarp, elect.

#include <rungs/emulator/model.hpp>

#include "gathering.hpp"

#include <cstdint>

namespace rungs::emulator {

/// One collective under way. Disjoint parts of a diverged warp may have one each.
struct WarpMeeting {
  std::uint32_t mask = 0;
  std::uint32_t arrived = 0;  // 0: free
  model::Collective kind{};
  char token = 0;
  std::uint32_t arguments[32];
  std::uint64_t values[32];
};

struct Warp {
  static constexpr int kMeetings = 4;
  WarpMeeting meetings[kMeetings];
  Gathering gatherings[Gathering::kOfAWarp];
};

}  // namespace rungs::emulator
