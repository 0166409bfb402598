#pragma once
/// @file wgmma.hpp
/// State of a warpgroup's asynchronous matrix multiplications.

#include <rungs/emulator/model.hpp>

#include "thread_set.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace rungs::emulator {

/// The accumulators of one chain of multiplications while they are "in flight": taken from the
/// threads' registers at the first multiplication, given back by the wait. Column n of the [64, N]
/// tile holds the rows in the order in which a thread owns them: rows r and r + 8 side by side (see
/// wgmma_math.hpp).
struct AccumulatorTile {
  std::vector<float> values;  // [n][64]
  int n = 0;
  int in_flight = 0;  // multiplications posted and not done
  int users = 0;      // threads whose registers are here
  struct Owner {
    float* registers = nullptr;  // where to give them back; null: not here
    std::uint64_t last = 0;      // the thread's youngest multiplication on it
  } owners[128];
};

struct Multiplication {
  std::uint64_t descriptor_a = 0;
  std::uint64_t descriptor_b = 0;
  int n = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;
  int posted = 0;  // threads; complete at 128
  AccumulatorTile* tile = nullptr;
  Location where;
  char token = 0;
};

/// The operands of a chain of multiplications as floats.
struct OperandPanels {
  static constexpr int kMaxChain = 8;  // multiplications carried out together
  static constexpr int kDepth = 16;    // k of one multiplication
  static constexpr int kPitch = kMaxChain * kDepth;
  alignas(64) float a[kPitch * 64];   // [k][64], rows in fragment order
  alignas(64) float b[256 * kPitch];  // [n][kPitch]
};

struct WarpGroup {
  std::vector<Multiplication> queue;  // numbers first .. first + size
  std::uint64_t first = 0;
  std::uint64_t done = 0;  // multiplications carried out
  std::vector<std::uint64_t>
      group_ends;  // by committed group: number of multiplications up to its end
  ThreadSet waiting;
  struct Member {
    std::uint64_t posted = 0;  // multiplications
    std::uint32_t groups = 0;  // commits
    bool fenced = false;       // registers not touched since the last wgmma.fence
  } members[128];
  std::vector<std::unique_ptr<AccumulatorTile>> tiles;
  char token = 0;

  void clear();
};

}  // namespace rungs::emulator
