#include "settings.hpp"

#include <rungs/core/env.hpp>

#include <sched.h>
#include <unistd.h>

#include <algorithm>

namespace rungs::gpu::detail {
namespace {

int usable_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

}  // namespace

int emulated_devices() {
  return static_cast<int>(env::integer("RUNGS_EMULATED_DEVICES", 8, 1, kMaxDevices));
}

int emulated_sms() { return static_cast<int>(env::integer("RUNGS_EMULATED_SMS", 4, 1, 256)); }

std::size_t emulated_memory_bytes() {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  const auto pages = static_cast<std::size_t>(std::max(0L, sysconf(_SC_PHYS_PAGES)));
  const auto page_bytes = static_cast<std::size_t>(std::max(0L, sysconf(_SC_PAGESIZE)));
  const std::size_t half_mib = std::max<std::size_t>(pages * page_bytes / 2 / kMiB, 1024);
  const auto mib =
      env::integer("RUNGS_EMULATED_MEMORY_MIB", static_cast<std::int64_t>(half_mib), 1, 1 << 24);
  return static_cast<std::size_t>(mib) * kMiB;
}

int emulator_workers() {
  const std::int64_t local_ranks = std::max(env::integer("RUNGS_LOCAL_RANKS", 1, 1, 1 << 20),
                                            env::integer("LOCAL_WORLD_SIZE", 1, 1, 1 << 20));
  return static_cast<int>(
      env::integer("RUNGS_EMULATOR_WORKERS", local_ranks > 1 ? 1 : usable_cores(), 1, 256));
}

}  // namespace rungs::gpu::detail
