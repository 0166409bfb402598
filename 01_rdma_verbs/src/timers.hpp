#pragma once
// The five-bit times of the InfiniBand specification.

#include <rungs/config.hpp>

#include <cmath>
#include <cstdint>

namespace rungs::verbs {

// The time of an RNR timer code (vol. 1, table 45): 10 µs × {1, 2, 3, 4, 6, 8, 12, 16, 24 ...};
// code 0 is the longest.
inline double rnr_seconds(std::uint8_t code) {
  if (code == 0) return 0.65536;
  const double steps = code < 4        ? code
                       : code % 2 == 0 ? std::ldexp(1.0, code / 2)
                                       : std::ldexp(1.5, code / 2);
  return steps * 1e-5;
}

// The code of the shortest such time that is at least `seconds`.
inline std::uint8_t rnr_timer_code(double seconds) {
  for (std::uint8_t code = 1; code < 32; ++code) {
    if (rnr_seconds(code) >= seconds) return code;
  }
  return 0;
}

// The code of the shortest local ACK timeout, 4.096 µs × 2^code, that is at least `seconds`.
inline std::uint8_t ack_timeout_code(double seconds) {
  std::uint8_t code = 1;
  while (code < 31 && std::ldexp(4.096e-6, code) < seconds) ++code;
  return code;
}

}  // namespace rungs::verbs
