// Programmatic dependent launch (griddepcontrol).

#include "cluster.hpp"
#include "report.hpp"
#include "sanitizer.hpp"
#include "trace_hooks.hpp"
#include "worker.hpp"

#include <rungs/emulator/model_memory.hpp>

#include <algorithm>

namespace rungs::emulator {
namespace {

// True: these were the last blocks, and dependents have been told.
bool release_dependents(Launch& launch, std::uint64_t blocks) {
  if (launch.untriggered_blocks.fetch_sub(blocks, std::memory_order_acq_rel) != blocks)
    return false;
  if (!launch.dependence.release || !launch.triggers.load(std::memory_order_relaxed)) return false;
  launch.dependence.release();
  return true;
}

void check_register_exchanges(const Cluster& cluster) {
  for (std::size_t rank = 0; rank < cluster.members.size(); rank++) {
    const std::vector<AlignedUse>& exchanges = cluster.members[rank].exchanges;
    for (std::size_t group = 0; group < exchanges.size(); group++) {
      if (exchanges[group].lanes == 0) continue;
      fail_async(*cluster.blocks[rank], exchanges[group].where,
                 "all four warps of a warpgroup execute setmaxnreg",
                 "a block ends after setmaxnreg by %u of the 4 warps of warpgroup %zu",
                 exchanges[group].lanes, group);
    }
  }
}

}  // namespace

void Prerequisite::end() {
  sanitizer::release(&token_);
  over_.store(true, std::memory_order_release);
}

bool Prerequisite::over() {
  if (!over_.load(std::memory_order_acquire)) return false;
  sanitizer::acquire(&token_);
  return true;
}

void Cluster::ended() {
  check_register_exchanges(*this);
  const auto untriggered = static_cast<std::uint64_t>(std::count_if(
      members.begin(), members.end(), [](const BlockInCluster& m) { return !m.triggered; }));
  if (untriggered > 0) release_dependents(*launch, untriggered);
}

namespace model {

void launch_dependents(Location where) {
  const sanitizer::Mute mute;
  Block& block = this_thread().home();
  BlockInCluster& member = block.cluster->members[block.rank];
  trace::instruction("griddepcontrol.launch_dependents", where);
  if (member.triggered) return;
  member.triggered = true;
  Launch& launch = *block.launch;
  launch.triggers.store(true, std::memory_order_relaxed);
  if (!release_dependents(launch, 1) || launch.options.async == Async::kEarly) return;
  // The dependent launch runs as far as it can: what it should have waited for shows.
  constexpr int kTurns = 4;
  for (int i = 0; i < kTurns; i++) yield(where);
}

void wait_for_prerequisites(Location where) {
  const sanitizer::Mute mute;
  Thread& self = this_thread();
  Block& block = self.home();
  trace::instruction("griddepcontrol.wait", where);
  Prerequisite* prerequisite = block.launch->dependence.prerequisite.get();
  if (prerequisite == nullptr) return;
  if (!prerequisite->over()) trace::blocks();
  while (!prerequisite->over()) {
    block.spinning.set(self.index());
    wait_for(self, WaitKind::kPrerequisites, 0, 0, where);
  }
  this_worker->progress++;
}

}  // namespace model
}  // namespace rungs::emulator
