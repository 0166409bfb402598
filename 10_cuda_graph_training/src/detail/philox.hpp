#pragma once
// Philox4x32-10: a counter-based random number generator. Number i is a function of (key, i) alone,
// so a kernel that knows the step can draw that step's numbers without any state, in eager and in
// captured mode alike.
// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.

#include <rungs/core/dtype.hpp>

#include <cstdint>

namespace rungs::training {

struct Philox {
  std::uint32_t word[4];
};

/// Ten rounds over a 128-bit counter with a 64-bit key.
RUNGS_HD Philox philox(std::uint64_t key, std::uint64_t counter_low, std::uint64_t counter_high) {
  std::uint32_t k0 = static_cast<std::uint32_t>(key);
  std::uint32_t k1 = static_cast<std::uint32_t>(key >> 32);
  Philox c{{static_cast<std::uint32_t>(counter_low), static_cast<std::uint32_t>(counter_low >> 32),
            static_cast<std::uint32_t>(counter_high),
            static_cast<std::uint32_t>(counter_high >> 32)}};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53u} * c.word[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57u} * c.word[2];
    c = Philox{{static_cast<std::uint32_t>(product1 >> 32) ^ c.word[1] ^ k0,
                static_cast<std::uint32_t>(product1),
                static_cast<std::uint32_t>(product0 >> 32) ^ c.word[3] ^ k1,
                static_cast<std::uint32_t>(product0)}};
    k0 += 0x9E3779B9u;  // the golden ratio
    k1 += 0xBB67AE85u;  // sqrt(3) - 1
  }
  return c;
}

/// A value in [0, range) from 64 random bits. Multiplying instead of taking the remainder leaves a
/// bias of less than range / 2^64.
RUNGS_HD std::uint64_t below(std::uint64_t range, std::uint32_t high, std::uint32_t low) {
  // The high 64 bits of the 128-bit product bits·range, for range < 2^32 without a 128-bit type.
  const std::uint64_t carry = (std::uint64_t{low} * range) >> 32;
  return (std::uint64_t{high} * range + carry) >> 32;
}

}  // namespace rungs::training
