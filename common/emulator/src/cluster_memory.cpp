#include "cluster_memory.hpp"

#include "cluster.hpp"
#include "report.hpp"
#include "sanitizer.hpp"
#include "trace_hooks.hpp"
#include "worker.hpp"

#include <rungs/emulator/model_memory.hpp>

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

std::byte* remote_memory(Block& self, std::uint32_t address, std::uint32_t size_bytes,
                         const char* instruction, Location where) {
  Block* block = remote_block(self, address, instruction, where);
  if (block == nullptr) return nullptr;
  const std::uint32_t offset = address & 0xffffff;
  if (offset % size_bytes != 0) {
    fail_async(self, where, "natural alignment: a vector's whole size",
               "%s: shared-memory offset %u is not %u-byte aligned", instruction, offset,
               size_bytes);
    return nullptr;
  }
  if (!block->shared.contains(offset, size_bytes)) {
    fail_async(self, where, "the object's size; a static object that the other block declares too",
               "%s: shared-memory offset %u of block rank %u, %u bytes: out of bounds; the block "
               "has dynamic memory [%u, %u) and static up to %u",
               instruction, offset, block->rank, size_bytes, SharedMemory::kBase,
               SharedMemory::kBase + block->shared.dynamic_bytes(), block->shared.end());
    return nullptr;
  }
  return block->shared.at(offset);
}

namespace model {

void* cluster_memory(std::uint32_t address, std::uint32_t size_bytes, const char* instruction,
                     Location where) {
  const sanitizer::Mute mute;
  return remote_memory(this_thread().home(), address, size_bytes, instruction, where);
}

void* map_shared_pointer(const void* pointer, std::uint32_t rank, Location where) {
  const sanitizer::Mute mute;
  Block& self = this_thread().home();
  const std::uint32_t address = map_shared(shared_address(pointer, where), rank, where);
  return remote_block(self, address, "mapa", where)->shared.at(address & 0xffffff);
}

std::uint32_t shared_rank(const void* pointer, Location where) {
  const sanitizer::Mute mute;
  const auto* at = static_cast<const std::byte*>(pointer);
  for (const auto& block : this_thread().home().cluster->blocks) {
    const std::byte* base = block->shared.base();
    if (at >= base && at < base + SharedMemory::kSlabBytes) return block->rank;
  }
  fail(where, "a pointer to shared memory of the cluster, as map_shared_pointer() gives",
       "getctarank: pointer %p is not in the cluster's shared memory", pointer);
}

std::uint32_t shared_rank(std::uint32_t address, Location where) {
  const sanitizer::Mute mute;
  const std::size_t size = this_thread().home().cluster->blocks.size();
  if (address >> 24 >= size) {
    fail(where, "an address from shared_u32() or map_shared()",
         "getctarank: address %08x names rank %u in a cluster of %zu", address, address >> 24,
         size);
  }
  return address >> 24;
}

void fence_proxy_async_cluster() {
  trace::instruction("fence.proxy.async.shared::cluster", {});
  for (const auto& block : this_thread().home().cluster->blocks) block->shared.proxy_fence();
}

std::uint32_t cluster_size() {
  return static_cast<std::uint32_t>(this_thread().home().cluster->blocks.size());
}

std::uint32_t cluster_index(ClusterIndex which, int axis) {
  const Block& block = this_thread().home();
  const gpu::Dim3& cluster = block.launch->request->config.cluster;
  const unsigned sizes[] = {cluster.x, cluster.y, cluster.z};
  const unsigned at[] = {block.block_index.x, block.block_index.y, block.block_index.z};
  const unsigned grid[] = {block.grid_size.x, block.grid_size.y, block.grid_size.z};
  switch (which) {
    case ClusterIndex::kBlock:
      return at[axis] % sizes[axis];
    case ClusterIndex::kBlocks:
      return sizes[axis];
    case ClusterIndex::kCluster:
      return at[axis] / sizes[axis];
    case ClusterIndex::kClusters:
      break;
  }
  return grid[axis] / sizes[axis];
}

}  // namespace model
}  // namespace rungs::emulator
