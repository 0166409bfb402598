#pragma once
/// @file facts.hpp
/// What this machine has and lacks, and what follows: `doctor` shows all of it, `tour` the first
/// part.

#include <rungs/gpu/device.hpp>

#include <string>
#include <vector>

namespace rungs::cli {

enum class Verdict {
  kReal,      ///< there, and used
  kEmulated,  ///< not there (or not used by this build): emulated
  kLacks,     ///< not there; something is out of reach until it is
  kNote,      ///< neither good nor bad
};

struct Fact {
  std::string what;   ///< "GPU"
  std::string found;  ///< "none"
  Verdict verdict;
  std::string follows;  ///< "kernels run in the emulator"
};

/// What the tour says first: the GPU and the NIC, real or emulated. Never fails.
std::vector<Fact> main_facts(const gpu::Device& device);
/// Everything. Looks only at files, limits and the device; changes nothing. Never fails.
std::vector<Fact> all_facts(const gpu::Device& device);

}  // namespace rungs::cli
