#pragma once
/// @file model_wgmma.hpp
/// The emulator's model of wgmma.mma_async in all its forms (see model.hpp for the conventions).

#include <rungs/emulator/model.hpp>

#include <cstdint>

namespace rungs::emulator {

enum class WgmmaType : std::uint8_t { kF32, kF16, kBf16, kTf32, kE4m3, kE5m2, kS8, kU8, kS32 };

/// What the instruction says besides its operands.
struct WgmmaInstruction {
  std::int16_t n = 0;
  WgmmaType d{}, a{}, b{};
  bool transpose_a = false;
  bool transpose_b = false;
  bool negative = false;  ///< the product of the signs of A and B
  bool satfinite = false;
  bool a_in_registers = false;

  bool operator==(const WgmmaInstruction&) const = default;
};

namespace model {

/// One multiplication of the calling warpgroup. `d`, this thread's accumulator registers, is
/// poisoned until the wait that covers it.
/// @param a this thread's four registers of A if the instruction has it in registers; must stay
///          readable and unchanged until that wait
void wgmma(const WgmmaInstruction& instruction, void* d, std::uint64_t descriptor_a,
           const std::uint32_t* a, std::uint64_t descriptor_b, bool accumulate, Location where);

}  // namespace model
}  // namespace rungs::emulator
