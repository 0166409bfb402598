#pragma once
/// @file wgmma.hpp
/// State of a warpgroup's asynchronous matrix multiplications.
///
/// A thread posts a multiplication (wgmma.cpp); when all 128 have, it is submitted as an
/// asynchronous operation and lands some time later (wgmma_land.cpp).

#include <rungs/emulator/model_wgmma.hpp>

#include "thread_set.hpp"
#include "wgmma_tile.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace rungs::emulator {

struct Block;

constexpr unsigned kWarpGroupThreads = 128;

/// Operand A of one multiplication, by thread, as posted.
struct RegisterOperand {
  std::uint32_t values[kWarpGroupThreads][4];
};

struct Multiplication {
  std::uint64_t descriptor_a = 0;
  std::uint64_t descriptor_b = 0;
  WgmmaInstruction instruction;
  bool accumulate = false;
  int posted = 0;  // threads; complete at 128
  AccumulatorTile* tile = nullptr;
  std::unique_ptr<RegisterOperand> registers_a;  // if it has A there
  Location where;
  char token = 0;
};

/// The operands of a chain of multiplications as floats.
struct OperandPanels {
  static constexpr int kPitch = 128;  // k of all multiplications carried out together
  alignas(64) float a[kPitch * 64];   // [k][64], rows in fragment order
  alignas(64) float b[256 * kPitch];  // [n][kPitch]
  alignas(64) float products[256 * 64];
};

/// Registers of A that multiplications still read: what they held when posted.
struct HeldRegisters {
  struct Held {
    const std::uint32_t* registers = nullptr;
    std::uint32_t values[4] = {};
    std::uint64_t number = 0;  // of the multiplication
    std::uint32_t fences = 0;  // the thread's, then
  };
  std::vector<Held> in_flight[kWarpGroupThreads];
  Held latest[kWarpGroupThreads];
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
    std::uint32_t fences = 0;
    bool fenced = false;  // registers not touched since the last wgmma.fence
  } members[kWarpGroupThreads];
  std::vector<std::unique_ptr<AccumulatorTile>> tiles;
  std::unique_ptr<HeldRegisters> held;  // made at first use
  char token = 0;

  void clear();
};

/// "m64n128k16.f32.bf16.bf16". No string: a thread that reports never returns to free one.
struct WgmmaName {
  explicit WgmmaName(const WgmmaInstruction& instruction);
  char text[48];
};

/// Carries out multiplication `number` of the warpgroup, and with it those behind it that add to
/// the same accumulators, if it makes no difference.
void land_products(Block& block, unsigned group_index, std::uint64_t number);

}  // namespace rungs::emulator
