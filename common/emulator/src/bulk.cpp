#include "bulk.hpp"

#include "report.hpp"
#include "sanitizer.hpp"
#include "worker.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace rungs::emulator {
namespace {

constexpr int kPoison = 0xff;
constexpr std::uint32_t kGranule = SharedMemory::kGranule;
constexpr std::uint64_t kPolicyMagic = 0x52756e6773000000ull;
constexpr std::uint64_t kPolicyMask = 0xffffffffff000000ull;

void report_bounds(Block& reporter, const SharedRange& range, const char* instruction,
                   const char* does, Location where) {
  const SharedMemory& shared = range.block->shared;
  fail_async(reporter, where, "the size of the copy, the address, and the launch's shared memory",
             "%s %s shared memory out of bounds: offset %u, %u bytes; the block has dynamic memory "
             "[%u, %u) and static up to %u",
             instruction, does, range.offset, range.size_bytes, SharedMemory::kBase,
             SharedMemory::kBase + shared.dynamic_bytes(), shared.end());
}

// Ordinary writes that no proxy fence follows may reach memory after the copy that overwrites them.
bool fenced(Block& issuer, const SharedRange& range, const char* instruction, Location where) {
  SharedMemory& shared = range.block->shared;
  for (std::uint32_t i = 0; i < range.size_bytes; i += kGranule) {
    const std::uint32_t offset = range.offset + i;
    if (shared.view_is_current(offset) || shared.seen_fence(offset) < shared.fence_count) continue;
    fail_async(issuer, where,
               "fence_proxy_async() by the threads that wrote, then a barrier, before the copy",
               "proxy: %s writes shared memory at offset %u that threads wrote without a "
               "fence.proxy.async since",
               instruction, offset);
    return false;
  }
  return true;
}

}  // namespace

SharedRange shared_range(std::uint32_t address, std::uint32_t size_bytes, bool own,
                         const char* instruction, Location where) {
  Block& self = this_thread().home();
  Cluster& cluster = *self.cluster;
  const std::uint32_t rank = address >> 24;
  if (rank >= cluster.blocks.size()) {
    fail(where, "map_shared()", "%s: address of block rank %u in a cluster of %zu", instruction,
         rank, cluster.blocks.size());
  }
  if (own && rank != self.rank) {
    fail(where, "shared_u32() of an object of the calling block",
         "%s: the shared-memory operand lies in block rank %u, not in the calling block",
         instruction, rank);
  }
  return {cluster.blocks[rank].get(), address & kSharedOffsetMask, size_bytes};
}

void check_bulk_size(std::uint32_t size_bytes, const char* instruction, Location where) {
  if (size_bytes % 16 == 0 && size_bytes != 0) return;
  fail(where, "whole 16-byte chunks; the rest by ordinary accesses",
       "%s: a size of %u bytes, not a positive multiple of 16", instruction, size_bytes);
}

void check_global(const void* pointer, const char* instruction, Location where) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  if (pointer == nullptr || address % 16 != 0) {
    fail(where, "a 16-byte aligned address in global memory",
         "%s: the global address %p is null or not 16-byte aligned", instruction, pointer);
  }
  for (const auto& block : this_thread().home().cluster->blocks) {
    const std::ptrdiff_t offset = static_cast<const std::byte*>(pointer) - block->shared.base();
    if (offset < 0 || offset >= static_cast<std::ptrdiff_t>(SharedMemory::kSlabBytes)) continue;
    fail(where, "the operands in their order", "%s: the global address %p lies in shared memory",
         instruction, pointer);
  }
}

void check_policy(std::uint64_t policy, const char* instruction, Location where) {
  if (policy == 0 || (policy & kPolicyMask) == kPolicyMagic) return;
  fail(where, "createpolicy_fractional()",
       "%s: the cache policy %016llx is no result of createpolicy", instruction,
       static_cast<unsigned long long>(policy));
}

std::uint32_t barrier_offset(std::uint32_t address, const Block& destination,
                             const char* instruction, Location where) {
  const std::uint32_t rank = address >> 24;
  if (rank != destination.rank) {
    fail(where, "an mbarrier beside the destination: map_shared() with the same rank for both",
         "%s: the mbarrier lies in block rank %u, the destination in block rank %u", instruction,
         rank, destination.rank);
  }
  return address & kSharedOffsetMask;
}

void claim(Block& issuer, const SharedRange& range, std::uint32_t id, const char* instruction,
           Location where) {
  SharedMemory& shared = range.block->shared;
  if (!shared.contains(range.offset, range.size_bytes)) {
    report_bounds(issuer, range, instruction, "writes", where);
    return;
  }
  shared.track();
  const std::uint32_t granules = range.size_bytes / kGranule;
  std::uint32_t* landing = &shared.landing(range.offset);
  std::uint32_t any = 0;
  for (std::uint32_t i = 0; i < granules; i++) any |= landing[i];
  if (any != 0) {
    const std::uint32_t i = static_cast<std::uint32_t>(
        std::find_if(landing, landing + granules, [](std::uint32_t other) { return other != 0; }) -
        landing);
    fail_async(issuer, where, "a stage refilled before its first copy was waited for",
               "race: tile copy #%u issued over copy #%u, which is still landing at "
               "shared-memory offset %u",
               id, landing[i], range.offset + i * kGranule);
    return;
  }
  if (std::memcmp(shared.at(range.offset), shared.view(range.offset), range.size_bytes) != 0 &&
      !fenced(issuer, range, instruction, where))
    return;
  std::fill_n(landing, granules, id);
  std::memset(shared.at(range.offset), kPoison, range.size_bytes);
  sanitizer::poison(shared.at(range.offset), range.size_bytes);
}

bool destination_lives(const SharedRange& range, const char* instruction, Location where) {
  if (range.block->live > 0) return true;
  fail_async(*range.block, where,
             "a wait for the copy before the block ends; for copies from other blocks a cluster "
             "barrier before the end",
             "%s lands at shared-memory offset %u of block rank %u, whose threads have all ended",
             instruction, range.offset, range.block->rank);
  return false;
}

void complete(const SharedRange& range, std::uint32_t barrier, Location where) {
  SharedMemory& shared = range.block->shared;
  const std::uint32_t granules = range.size_bytes / kGranule;
  std::fill_n(&shared.landing(range.offset), granules, 0);
  std::fill_n(&shared.seen_fence(range.offset), granules, shared.fence_count);
  sanitizer::access(shared.at(range.offset), range.size_bytes, true);
  this_worker->counters.async_bytes += range.size_bytes;
  mbarrier_complete_tx(*range.block, barrier, range.size_bytes, where);
}

bool engine_may_read(const SharedRange& range, const char* instruction, Location where) {
  SharedMemory& shared = range.block->shared;
  for (std::uint32_t i = 0; i < range.size_bytes; i += kGranule) {
    const std::uint32_t offset = range.offset + i;
    if (shared.landing(offset) != 0) {
      fail_async(*range.block, where, "a missing mbarrier_wait() before the copy",
                 "race: %s reads shared memory at offset %u while copy #%u is landing there",
                 instruction, offset, shared.landing(offset));
      return false;
    }
    if (!shared.view_is_current(offset)) {
      if (shared.seen_fence(offset) >= shared.fence_count) {
        fail_async(*range.block, where,
                   "fence_proxy_async() by the threads that wrote, then a barrier, before the copy",
                   "proxy: %s reads shared memory at offset %u that threads wrote without a "
                   "fence.proxy.async",
                   instruction, offset);
        return false;
      }
      std::memcpy(shared.view(offset), shared.at(offset), kGranule);
    }
    shared.seen_fence(offset) = shared.fence_count;
  }
  return true;
}

SharedSource::SharedSource(const SharedRange& range, std::uint32_t id, const char* instruction,
                           Location where)
    : range_(range),
      id_(id),
      instruction_(instruction) {
  SharedMemory& shared = range.block->shared;
  if (range.offset % kGranule != 0) {
    fail(where, "alignas(128) on the source",
         "%s: the source at shared-memory offset %u is not 16-byte aligned", instruction,
         range.offset);
  }
  if (!shared.contains(range.offset, range.size_bytes))
    report_bounds(*range.block, range, instruction, "reads", where);
  shared.track();
  engine_may_read(range, instruction, where);
  const std::byte* from = shared.at(range.offset);
  copy_.assign(from, from + range.size_bytes);
}

bool SharedSource::read(Location where) {
  SharedMemory& shared = range_.block->shared;
  if (range_.block->live == 0) {
    fail_async(*range_.block, where,
               "bulk_wait_read<0>() by the thread that copies, before it ends",
               "%s #%u reads shared memory at offset %u of a block whose threads have all ended",
               instruction_, id_, range_.offset);
    return false;
  }
  const std::byte* now = shared.at(range_.offset);
  const std::uint32_t* landing = &shared.landing(range_.offset);
  for (std::uint32_t i = 0; i < range_.size_bytes; i += kGranule) {
    if (landing[i / kGranule] == 0 && std::memcmp(now + i, copy_.data() + i, kGranule) == 0)
      continue;
    fail_async(*range_.block, where,
               "bulk_wait_read() by the thread that copies (for copies to shared memory: the "
               "mbarrier), then a barrier, before the source is written again",
               "race: the source of %s #%u was overwritten at shared-memory offset %u before the "
               "copy had read it",
               instruction_, id_, range_.offset + i);
    return false;
  }
  sanitizer::access(now, range_.size_bytes, false);
  return true;
}

void submit_copy(Block& issuer, std::uint32_t id, std::unique_ptr<Landing> landing,
                 Location where) {
  AsyncOperation operation;
  operation.kind = AsyncOperation::Kind::kCopy;
  operation.block = &issuer;
  operation.where = where;
  operation.landing = std::move(landing);
  operation.stream = (std::uint64_t{1} << 32) + id;  // copies are not ordered among each other
  issuer.cluster->submit(std::move(operation));
}

namespace model {

std::uint64_t cache_policy(float fraction, Location where) {
  if (!(fraction > 0.0f && fraction <= 1.0f)) {
    const sanitizer::Mute mute;
    fail(where, "above 0, at most 1", "createpolicy.fractional: a fraction of %g",
         static_cast<double>(fraction));
  }
  return kPolicyMagic | static_cast<std::uint64_t>(fraction * 65535.0f);
}

}  // namespace model
}  // namespace rungs::emulator
