#pragma once
/// @file wgmma.hpp
/// State of a warpgroup's asynchronous matrix multiplications.

#include <rungs/emulator/model.hpp>

#include "thread_set.hpp"

#include <bitset>
#include <cstdint>
#include <memory>
#include <vector>

namespace rungs::emulator {

struct Block;

/// The accumulators of one wgmma chain while they are "in flight": taken from the threads' registers at the first
/// multiplication, given back by the wait. Column n of the [64, N] tile holds the rows in the order in which a
/// thread owns them: rows r and r + 8 side by side (see wgmma_math.hpp).
struct AccumulatorTile {
  std::vector<float> values;     // [n][64]
  int n = 0;
  int in_flight = 0;             // multiplications posted and not done
  int users = 0;                 // threads whose registers are here
  float* registers[128] = {};    // where to give them back; null: not here
  std::uint64_t last[128] = {};  // the thread's youngest multiplication on it
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

struct WarpGroup {
  std::vector<Multiplication> queue;  // numbers first .. first + size
  std::uint64_t first = 0;
  std::uint64_t done = 0;                 // multiplications carried out
  std::vector<std::uint64_t> group_ends;  // by committed group: number of multiplications up to its end
  ThreadSet waiting;
  std::uint64_t posted[128] = {};
  std::uint64_t groups[128] = {};
  std::bitset<128> fenced;
  std::vector<std::unique_ptr<AccumulatorTile>> tiles;
  char token = 0;

  void clear();
};

/// Carries out multiplication `number` of the warpgroup and those behind it that belong to the same chain.
void wgmma_land(Block& block, unsigned group, std::uint64_t number);

}  // namespace rungs::emulator
