#pragma once
/// @file gathering.hpp
/// Where the lanes of a warp meet for an instruction that one of them carries out for all, with
/// operands that stay in the lanes' registers. Shuffles and votes have their own, faster one
/// (warp.hpp).

#include <rungs/emulator/model.hpp>

#include <cstdint>
#include <string>

namespace rungs::emulator {

struct Thread;

/// One instruction under way in a warp.
struct Gathering {
  static constexpr int kOfAWarp = 4;  // disjoint parts of a diverged warp may have one each

  const char* name = "";  // of the instruction, with its qualifiers; the same pointer for all lanes
  bool aligned = false;
  std::uint32_t mask = 0;
  std::uint32_t arrived = 0;  // 0: free
  Location where;             // of the first that came
  void* operands[32] = {};
};

/// Carries the instruction out: operands[lane] is what that lane passed.
using Complete = void (*)(const Gathering& gathering, Location where);

/// Blocks until every lane of `mask` has called with the same mask and name; the last one runs
/// `complete`. Orders no memory.
void gather(const char* name, std::uint32_t mask, void* operands, Complete complete,
            Location where);
/// The same for an .aligned instruction: all 32 lanes, from the same place in the source. Reports a
/// warp that is not full, lanes that have ended, and lanes that came to another instruction.
void gather_aligned(const char* name, void* operands, Complete complete, Location where);

/// For the deadlock report: what a lane in a gathering waits for.
std::string describe_gathering(const Thread& thread);

}  // namespace rungs::emulator
