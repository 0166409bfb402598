#pragma once
/// @file wait_in_time.hpp
/// For kernels whose byte counts are under test: a wrong one shall fail the test, not hang it.

#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/mbarrier.hpp>
#include <rungs/ptx/sync.hpp>

#include <cstdint>

namespace rungs::ptx::test {

/// mbarrier_wait() for at most ten seconds; false then.
RUNGS_DEVICE bool wait_in_time(std::uint64_t* barrier, std::uint32_t parity) {
  constexpr std::uint64_t kLimitNs = 10'000'000'000;
  const std::uint64_t end = globaltimer_ns() + kLimitNs;
  while (!mbarrier_try_wait(barrier, parity)) {
    if (globaltimer_ns() > end) return false;
  }
  return true;
}

}  // namespace rungs::ptx::test
