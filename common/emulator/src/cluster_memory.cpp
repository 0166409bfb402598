#include "cluster_memory.hpp"

#include "cluster.hpp"
#include "report.hpp"
#include "worker.hpp"

namespace rungs::emulator {
namespace {

bool has_started(const Block& block) {
  if (block.live < block.thread_count) return true;
  for (unsigned i = 0; i < block.thread_count; i++) {
    if (block.threads[i].stack != nullptr) return true;
  }
  return false;
}

}  // namespace

Block* remote_block(Block& self, std::uint32_t address, const char* instruction, Location where) {
  const std::uint32_t rank = address >> 24;
  const Cluster& cluster = *self.cluster;
  if (rank >= cluster.blocks.size()) {
    fail_async(self, where, "map_shared()", "%s: address %08x names rank %u in a cluster of %zu",
               instruction, address, rank, cluster.blocks.size());
    return nullptr;
  }
  Block& block = *cluster.blocks[rank];
  if (&block == &self) return &block;
  if (block.live == 0) {
    fail_async(self, where,
               "cluster_arrive() and cluster_wait() before a block ends whose shared memory others "
               "still use",
               "%s: block rank %u of the cluster has ended, and its shared memory with it",
               instruction, rank);
    return nullptr;
  }
  if (!has_started(block)) {
    fail_async(self, where,
               "cluster_arrive() and cluster_wait() before the first access to another block's "
               "shared memory",
               "%s: block rank %u of the cluster may not have started yet", instruction, rank);
    return nullptr;
  }
  return &block;
}

}  // namespace rungs::emulator
