// cp.async: copies of 4, 8 or 16 bytes from global to shared memory that a thread starts and later
// waits for. They belong to the generic proxy: wgmma and TMA see them only after a proxy fence.

#include "async_copy.hpp"

#include <rungs/emulator/model_warp.hpp>

#include "report.hpp"
#include "sanitizer.hpp"
#include "trace_hooks.hpp"
#include "worker.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

extern "C" __attribute__((weak)) void* __asan_region_is_poisoned(void* begin, std::size_t size);

namespace rungs::emulator {
namespace {

constexpr std::uint32_t kOffsetMask = 0xffffff;
constexpr int kPoison = 0xff;

using Issuer = AsyncCopies::Issuer;

struct Copy final : Landing {
  void land(Cluster& cluster, const AsyncOperation& operation) override;
  [[nodiscard]] trace::Description describe(const Block& /*block*/) const override {
    return {"cp.async", source_bytes, {}};
  }

  unsigned thread = 0;
  std::uint64_t number = 0;  // among the thread's
  const std::byte* source = nullptr;
  std::uint32_t offset = 0;
  std::uint32_t size_bytes = 0;
  std::uint32_t source_bytes = 0;
};

bool poisoned(const void* begin, std::size_t size_bytes) {
  return __asan_region_is_poisoned != nullptr &&
         __asan_region_is_poisoned(const_cast<void*>(begin), size_bytes) != nullptr;
}

Issuer& issuer_of(const Thread& thread) {
  Block& block = thread.home();
  return block.copies.issuer(thread.index(), block.thread_count);
}

// Arrivals whose copies have all landed.
void arrive_if_due(Block& block, Issuer& issuer) {
  while (!issuer.arrivals.empty() && issuer.arrivals.front().after <= issuer.landed()) {
    const Issuer::Arrival arrival = issuer.arrivals.front();
    issuer.arrivals.erase(issuer.arrivals.begin());
    MBarrier* barrier = block.mbarriers.find(arrival.barrier);
    if (barrier != nullptr && barrier->pending == 0) {
      fail_async(
          block, arrival.where,
          "the count given to mbarrier_init(), which with .noinc holds these arrivals too",
          "cp.async.mbarrier.arrive at shared-memory offset %u: more arrivals than its count "
          "of %u in phase %u",
          barrier->offset, barrier->count, barrier->phase);
      return;
    }
    if (barrier != nullptr) barrier->pending--;
    sanitizer::acquire(&issuer.token);
    if (!mbarrier_complete_tx(block, arrival.barrier, 0, arrival.where)) return;
  }
}

void Copy::land(Cluster& cluster, const AsyncOperation& operation) {
  Block& block = *operation.block;
  SharedMemory& shared = block.shared;
  std::byte* to = shared.at(offset);
  sanitizer::unpoison(to, size_bytes);
  if (source_bytes > 0) {
    sanitizer::access(source, source_bytes, false);
    std::memcpy(to, source, source_bytes);
  }
  std::memset(to + source_bytes, 0, size_bytes - source_bytes);
  sanitizer::access(to, size_bytes, true);
  block.copies.set_landing(offset, size_bytes, 0);
  const std::uint32_t granule = offset / SharedMemory::kGranule * SharedMemory::kGranule;
  shared.landing(granule) = block.copies.landing(granule, SharedMemory::kGranule);
  this_worker->counters.async_bytes += source_bytes;

  Issuer& issuer = block.copies.issuer(thread, block.thread_count);
  std::erase(issuer.in_flight, number);
  sanitizer::release(&issuer.token);
  sanitizer::release(&cluster.launch->end_token);  // nobody need wait for it before the end
  arrive_if_due(block, issuer);
  if (issuer.waiting && issuer.landed() >= issuer.awaited) {
    issuer.waiting = false;
    block.ready.set(thread);
  }
}

void wait_until_landed(std::uint64_t copies, Location where) {
  Thread& self = this_thread();
  Issuer& issuer = issuer_of(self);
  if (issuer.landed() < copies) {
    issuer.waiting = true;
    issuer.awaited = copies;
    trace::blocks();
    wait_for(self, WaitKind::kAsyncCopy, copies, 0, where);
  }
  sanitizer::acquire(&issuer.token);
}

void check_addresses(const Block& block, const void* destination, const void* source,
                     std::uint32_t size_bytes, std::uint32_t source_bytes, Location where) {
  if (source_bytes > size_bytes) {
    fail(where, "the number of valid bytes, at most the copy's size",
         "cp.async of %u bytes with a source size of %u", size_bytes, source_bytes);
  }
  if (reinterpret_cast<std::uintptr_t>(destination) % size_bytes != 0) {
    fail(where, "alignas() on the array, and the step between rows",
         "cp.async of %u bytes: destination at shared-memory offset %u is not %u-byte aligned",
         size_bytes,
         static_cast<std::uint32_t>(static_cast<const std::byte*>(destination) -
                                    block.shared.base()),
         size_bytes);
  }
  if (source_bytes == 0) return;
  if (reinterpret_cast<std::uintptr_t>(source) % size_bytes != 0) {
    fail(where, "a pitch and an offset that are multiples of the copy's size",
         "cp.async of %u bytes: source %p is not %u-byte aligned", size_bytes, source, size_bytes);
  }
  const std::ptrdiff_t inside = static_cast<const std::byte*>(source) - block.shared.base();
  if (source == nullptr ||
      (inside >= 0 && inside < static_cast<std::ptrdiff_t>(SharedMemory::kSlabBytes))) {
    fail(where, "a pointer into a device buffer", "cp.async from %p, which is %s", source,
         source == nullptr ? "null" : "in shared memory, not in global");
  }
  if (poisoned(source, source_bytes)) {
    fail(where, "the last rows and columns: a source size of 0 fills with zeros without reading",
         "cp.async reads global memory out of bounds: %u bytes at %p", source_bytes, source);
  }
}

}  // namespace

AsyncCopies::Issuer& AsyncCopies::issuer(unsigned thread, unsigned thread_count) {
  if (!used_) {
    issuers_.resize(std::max<std::size_t>(issuers_.size(), thread_count));
    for (Issuer& issuer : issuers_) {
      issuer.issued = 0;
      issuer.in_flight.clear();
      issuer.group_ends.clear();
      issuer.arrivals.clear();
      issuer.waiting = false;
    }
    used_ = true;
  }
  return issuers_[thread];
}

std::uint32_t AsyncCopies::landing(std::uint32_t offset, std::uint32_t size_bytes) const {
  if (words_in_flight_ == 0) return 0;
  const std::uint32_t end = std::min(offset + size_bytes, SharedMemory::kSlabBytes);
  for (std::uint32_t at = offset / 4 * 4; at < end; at += 4) {
    if (words_[at / 4] != 0) return words_[at / 4];
  }
  return 0;
}

void AsyncCopies::set_landing(std::uint32_t offset, std::uint32_t size_bytes, std::uint32_t id) {
  if (words_.empty()) words_.resize(SharedMemory::kSlabBytes / 4);
  if (id != 0) {
    words_in_flight_ += size_bytes / 4;
  } else {
    words_in_flight_ -= size_bytes / 4;
  }
  std::fill_n(words_.begin() + offset / 4, size_bytes / 4, id);
}

void check_shared_access(Block& block, std::uint32_t offset, std::uint32_t size_bytes,
                         const char* instruction, bool write, Location where) {
  SharedMemory& shared = block.shared;
  if (!shared.contains(offset, size_bytes)) {
    fail(where, "the row addresses, and the size of the launch's shared memory",
         "%s %s shared memory out of bounds: offset %u, %u bytes; the block has dynamic memory "
         "[%u, %u) and static up to %u",
         instruction, write ? "writes" : "reads", offset, size_bytes, SharedMemory::kBase,
         SharedMemory::kBase + shared.dynamic_bytes(), shared.end());
  }
  std::uint32_t id = block.copies.landing(offset, size_bytes);
  const char* kind = "cp.async";
  if (id == 0 && shared.tracked()) {
    const std::uint32_t first = offset / SharedMemory::kGranule * SharedMemory::kGranule;
    for (std::uint32_t at = first; at < offset + size_bytes; at += SharedMemory::kGranule) {
      // The granule may hold a cp.async that lands beside the bytes in question.
      if (block.copies.landing(at, SharedMemory::kGranule) == 0 && shared.landing(at) != 0)
        id = shared.landing(at);
    }
    kind = "tile copy";
  }
  if (id == 0) return;
  fail(where, "the wait for the copy, and a barrier if another thread issued it, before the access",
       "race: %s %s shared memory at offset %u while %s #%u is landing there", instruction,
       write ? "writes" : "reads", offset, kind, id);
}

namespace model {

void cp_async(void* destination, const void* source, std::uint32_t size_bytes,
              std::uint32_t source_bytes, Location where) {
  const sanitizer::Mute mute;
  const Thread& self = this_thread();
  Block& block = self.home();
  SharedMemory& shared = block.shared;
  const std::uint32_t offset = shared_address(destination, where) & kOffsetMask;
  check_addresses(block, destination, source, size_bytes, source_bytes, where);
  check_shared_access(block, offset, size_bytes, "cp.async", true, where);
  shared.track();

  Issuer& issuer = issuer_of(self);
  auto copy = std::make_unique<Copy>();
  copy->thread = self.index();
  copy->number = issuer.issued++;
  copy->source = static_cast<const std::byte*>(source);
  copy->offset = offset;
  copy->size_bytes = size_bytes;
  copy->source_bytes = source_bytes;
  issuer.in_flight.push_back(copy->number);

  const std::uint32_t id = ++block.cluster->operation_ids;
  sanitizer::access(shared.at(offset), size_bytes, true);
  std::memset(shared.at(offset), kPoison, size_bytes);
  sanitizer::poison(shared.at(offset), size_bytes);
  block.copies.set_landing(offset, size_bytes, id);
  shared.landing(offset) = id;

  trace::instruction("cp.async", where);
  AsyncOperation operation;
  operation.kind = AsyncOperation::Kind::kCopy;
  operation.block = &block;
  operation.stream = (std::uint64_t{1} << 32) + id;  // copies are not ordered among each other
  operation.where = where;
  operation.landing = std::move(copy);
  block.cluster->submit(std::move(operation));
}

void cp_async_commit_group() {
  const sanitizer::Mute mute;
  Issuer& issuer = issuer_of(this_thread());
  issuer.group_ends.push_back(issuer.issued);
  trace::instruction("cp.async.commit_group", {});
}

void cp_async_wait_group(std::uint32_t pending, Location where) {
  const sanitizer::Mute mute;
  Issuer& issuer = issuer_of(this_thread());
  trace::instruction("cp.async.wait_group", where, pending);
  if (issuer.group_ends.size() <= pending) return;
  const std::size_t groups = issuer.group_ends.size() - pending;
  const std::uint64_t copies = issuer.group_ends[groups - 1];
  issuer.group_ends.erase(issuer.group_ends.begin(),
                          issuer.group_ends.begin() + static_cast<std::ptrdiff_t>(groups));
  wait_until_landed(copies, where);
}

void cp_async_wait_all(Location where) {
  const sanitizer::Mute mute;
  Issuer& issuer = issuer_of(this_thread());
  trace::instruction("cp.async.wait_all", where);
  issuer.group_ends.clear();
  wait_until_landed(issuer.issued, where);
}

void cp_async_mbarrier_arrive(std::uint32_t barrier, bool counted, Location where) {
  const sanitizer::Mute mute;
  Block& block = this_thread().home();
  const std::uint32_t offset = barrier & kOffsetMask;
  MBarrier* found = block.mbarriers.find(offset);
  if (found == nullptr) {
    fail(where, "mbarrier_init(), fence_mbarrier_init() and a barrier before the first use",
         "cp.async.mbarrier.arrive: mbarrier at shared-memory offset %u is not initialised",
         offset);
  }
  if (!counted) {
    // The phase must not be able to end before the arrival: it waits for one more.
    if (found->pending + 1 >= 1u << 20) {
      fail(where, "at most 2^20 - 1 pending arrivals",
           "cp.async.mbarrier.arrive at shared-memory offset %u: its pending count would be 2^20",
           offset);
    }
    found->pending++;
  }
  Issuer& issuer = issuer_of(this_thread());
  trace::instruction("cp.async.mbarrier.arrive", where, offset);
  issuer.arrivals.push_back({issuer.issued, offset, where});
  sanitizer::release(&issuer.token);
  arrive_if_due(block, issuer);
}

}  // namespace model
}  // namespace rungs::emulator
