#pragma once
/// @file options.hpp
/// The adversarial knobs of the emulator, from the environment and settable by tests.

#include <rungs/config.hpp>

#include <cstdint>

namespace rungs::emulator {

/// When asynchronous work (TMA, wgmma) takes effect.
enum class Async {
  kLate,    ///< as late as the rules allow: finds missing waits (default)
  kEarly,   ///< at once: finds code that relies on lateness
  kRandom,  ///< at seeded random points
};

struct Options {
  Async async = Async::kLate;  ///< RUNGS_EMULATOR_ASYNC=late|early|random
  std::uint64_t seed =
      0;  ///< RUNGS_EMULATOR_SEED: 0 runs threads in order, else in seeded random order
  double watchdog_s =
      45;  ///< RUNGS_EMULATOR_WATCHDOG_S, times timeout_scale(): a launch that only spins ends
};

/// The options in force; the environment's until set_options() was called. Thread-safe.
/// @throws Error kInvalidArgument if an environment variable has a value outside the list
Options options();
/// Replaces them for blocks that start later.
void set_options(const Options& options);

}  // namespace rungs::emulator
