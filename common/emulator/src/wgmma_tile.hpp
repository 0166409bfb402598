#pragma once
/// @file wgmma_tile.hpp
/// The accumulators of wgmma while they are in flight.

#include <rungs/emulator/model_wgmma.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rungs::emulator {

/// The accumulators of one chain of multiplications while they are "in flight": taken from the
/// threads' registers at the first multiplication, given back by the wait. Column n of the [64, N]
/// tile holds the rows in the order in which a thread owns them: rows r and r + 8 side by side (see
/// wgmma_math.hpp).
struct AccumulatorTile {
  static constexpr std::size_t kRows = 64;

  std::vector<float> values;  // [n][64]; of s32 the bits, f16 as floats
  int n = 0;
  WgmmaType type{};
  int in_flight = 0;  // multiplications posted and not done
  int users = 0;      // threads whose registers are here
  Location where;     // of the first multiplication on it
  struct Owner {
    void* registers = nullptr;  // where to give them back; null: not here
    std::uint64_t last = 0;     // the thread's youngest multiplication on it
    std::uint32_t fences = 0;   // the thread's wgmma.fence up to then
    WgmmaType operand{};        // and its type of A, which decides the shape
  } owners[128];

  /// Thread t's registers to the tile.
  void take(unsigned t, const void* registers);
  /// The tile to thread t's registers.
  void give(unsigned t, void* registers) const;
  /// Fills registers of such a tile with a NaN that nobody computes.
  void poison(void* registers) const;
  [[nodiscard]] bool still_poisoned(const void* registers) const;

 private:
  [[nodiscard]] int words() const { return type == WgmmaType::kF16 ? n / 4 : n / 2; }
};

}  // namespace rungs::emulator
