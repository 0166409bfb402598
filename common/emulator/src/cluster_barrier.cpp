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

// All lanes of a warp arrive at one instruction: an .aligned one together, the others one after the
// other. (A warp that arrives at two hangs an H200, measured 2026-12-01.)
void check_one_place(Thread& self, BlockInCluster& member, bool aligned, Location where) {
  const Block& block = self.home();
  member.aligned.resize(block.warps.size());
  const unsigned warp = self.index() / 32;
  AlignedUse& use = member.aligned[warp];
  if (use.lanes == 0) {
    use.where = where;
  } else if (use.where.line != where.line || std::strcmp(use.where.file, where.file) != 0) {
    fail(where, "syncwarp() before it, and one arrive for all paths of the warp",
         "diverged warp: barrier.cluster.arrive%s at line %d, while other lanes of the warp "
         "executed one at line %d",
         aligned ? ".aligned" : "", where.line, use.where.line);
  }
  unsigned lanes = 0;
  for (unsigned i = warp * 32; i < std::min(block.thread_count, warp * 32 + 32); i++)
    lanes += block.ended.test(i) ? 0 : 1;
  if (++use.lanes >= lanes) use.lanes = 0;
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
  check_one_place(self, member, aligned, where);
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
