// The barrier of a cluster (barrier.cluster): it waits for all threads that have not ended.

#include "cluster.hpp"
#include "report.hpp"
#include "sanitizer.hpp"
#include "trace_hooks.hpp"
#include "worker.hpp"

#include <rungs/emulator/model_memory.hpp>

#include <algorithm>
#include <cstring>

namespace rungs::emulator {
namespace {

// An .aligned instruction stands at one place for all lanes of a warp.
void check_aligned(Thread& self, BlockInCluster& member, const char* instruction, Location where) {
  const Block& block = self.home();
  member.aligned.resize(block.warps.size());
  const unsigned warp = self.index() / 32;
  AlignedUse& use = member.aligned[warp];
  if (use.lanes == 0) {
    use.where = where;
  } else if (use.where.line != where.line || std::strcmp(use.where.file, where.file) != 0) {
    fail(where,
         "lanes of a warp on different paths: syncwarp() before the aligned form, or the unaligned "
         "one",
         "diverged warp: %s.aligned at line %d, while other lanes of the warp executed one at line "
         "%d",
         instruction, where.line, use.where.line);
  }
  const unsigned lanes = std::min(32u, block.thread_count - warp * 32);
  if (++use.lanes == lanes) use.lanes = 0;
}

}  // namespace

void Cluster::end_barrier_phase() {
  generation++;
  trace::met(this);
  missing = live;
  this_worker->counters.barriers++;
  for (const auto& block : blocks) block->wake(block->waiting_for_cluster);
}

// The thread was the last one waited for, or it has arrived, in this phase or in an earlier one.
void Cluster::end_phase_without(unsigned rank, unsigned thread) {
  if (members[rank].arrived.test(thread)) {
    const bool counted = blocks[rank]->threads[thread].generation == generation;
    if (counted || --missing > 0) return;
  }
  if (live > 0) end_barrier_phase();
}

namespace model {

void cluster_barrier_arrive(bool release, bool aligned, Location where) {
  const sanitizer::Mute mute;
  Thread& self = this_thread();
  Block& block = self.home();
  Cluster& cluster = *block.cluster;
  BlockInCluster& member = cluster.members[block.rank];
  if (member.arrived.test(self.index())) {
    fail(where, "a cluster_wait() for every cluster_arrive()",
         "barrier.cluster.arrive twice by one thread without a barrier.cluster.wait between");
  }
  if (aligned) check_aligned(self, member, "barrier.cluster.arrive", where);
  trace::meets("barrier.cluster.arrive", &cluster, true, false, where);
  if (release) sanitizer::release(&cluster.token);
  member.arrived.set(self.index());
  self.generation = cluster.generation;
  if (--cluster.missing == 0) cluster.end_barrier_phase();
}

void cluster_barrier_wait(bool aligned, Location where) {
  const sanitizer::Mute mute;
  Thread& self = this_thread();
  Block& block = self.home();
  Cluster& cluster = *block.cluster;
  BlockInCluster& member = cluster.members[block.rank];
  static_cast<void>(aligned);  // who has arrived together waits together
  if (!member.arrived.test(self.index())) {
    fail(where, "cluster_arrive() before cluster_wait()",
         "barrier.cluster.wait by a thread that has not executed barrier.cluster.arrive");
  }
  trace::meets("barrier.cluster.wait", &cluster, false, true, where);
  while (cluster.generation == self.generation) {
    block.waiting_for_cluster.set(self.index());
    wait_for(self, WaitKind::kCluster, 0, 0, where);
  }
  member.arrived.reset(self.index());
  sanitizer::acquire(&cluster.token);
}

void cluster_barrier(bool arrive, bool wait, Location where) {
  if (arrive) cluster_barrier_arrive(true, true, where);
  if (wait) cluster_barrier_wait(true, where);
}

}  // namespace model
}  // namespace rungs::emulator
