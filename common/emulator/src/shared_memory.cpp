#include "shared_memory.hpp"

#include "block.hpp"
#include "report.hpp"
#include "sanitizer.hpp"
#include "trace_hooks.hpp"
#include "worker.hpp"

#include <sys/mman.h>

#include <cstring>
#include <new>

namespace rungs::emulator {
namespace {

std::byte* map_slab() {
  void* memory = mmap(nullptr, SharedMemory::kSlabBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(memory);
}

constexpr int kPoison = 0xff;  // a NaN as bf16 and as float

// Keeping what memory holds costs a copy of it. A mistake shows in a kernel's first rounds.
constexpr std::uint32_t kKeptFences = 512;

}  // namespace

SharedMemory::SharedMemory() : memory_(map_slab()) {}

SharedMemory::~SharedMemory() {
  sanitizer::unpoison(memory_, kSlabBytes);
  munmap(memory_, kSlabBytes);
  if (view_ != nullptr) munmap(view_, kSlabBytes);
  if (at_fence_ != nullptr) munmap(at_fence_, kSlabBytes);
}

void SharedMemory::load(std::uint32_t dynamic_bytes, bool keep_fences) {
  if (sanitizer::thread_sanitizer()) {
    // A fresh mapping has a fresh shadow: the block does not seem to race with earlier ones.
    munmap(memory_, kSlabBytes);
    memory_ = map_slab();
  }
  sanitizer::poison(memory_, kSlabBytes);
  dynamic_bytes_ = dynamic_bytes;
  end_ = kBase + dynamic_bytes;
  tracking_ = false;
  fence_count = 0;
  keep_fences_ = keep_fences;
  objects_.clear();
  poison(kBase, end_);
}

void SharedMemory::poison(std::uint32_t begin, std::uint32_t stop) {
  sanitizer::unpoison(memory_ + begin, stop - begin);
  std::memset(memory_ + begin, kPoison, stop - begin);
}

void SharedMemory::proxy_fence() {
  fence_count++;
  if (!keep_fences_ || fence_count > kKeptFences) return;
  const sanitizer::Mute mute;
  if (at_fence_ == nullptr) at_fence_ = map_slab();
  // Not by one memcpy(): AddressSanitizer would object to what is poisoned.
  for (std::uint32_t at = kBase; at < end_; at += kGranule) {
    std::uint64_t chunk[2];
    __builtin_memcpy(chunk, memory_ + at, sizeof(chunk));
    __builtin_memcpy(at_fence_ + at, chunk, sizeof(chunk));
    asm volatile("" ::: "memory");
  }
}

bool SharedMemory::fenced(std::uint32_t offset) const {
  if (seen_fence_[offset / kGranule] >= fence_count) return false;
  if (!keep_fences_ || fence_count > kKeptFences) return true;
  return std::memcmp(memory_ + offset, at_fence_ + offset, kGranule) == 0;
}

void* SharedMemory::static_object(const void* key, std::size_t size_bytes, std::size_t alignment) {
  for (const Object& object : objects_) {
    if (object.key == key) return memory_ + object.offset;
  }
  const std::size_t offset = (end_ + alignment - 1) / alignment * alignment;
  if (alignment > kBase || offset + size_bytes > kSlabBytes) return nullptr;
  const std::uint32_t before = end_;
  end_ = static_cast<std::uint32_t>(offset + size_bytes);
  objects_.push_back(
      {key, static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(size_bytes)});
  poison(static_cast<std::uint32_t>(offset), end_);
  if (tracking_) reset_tracking((before + kGranule - 1) / kGranule * kGranule, end_);
  return memory_ + offset;
}

void SharedMemory::track() {
  if (tracking_) return;
  tracking_ = true;
  if (view_ == nullptr) {
    view_ = map_slab();
    landing_.resize(kSlabBytes / kGranule);
    seen_fence_.resize(kSlabBytes / kGranule);
  }
  reset_tracking(kBase, end_);
}

void SharedMemory::reset_tracking(std::uint32_t begin, std::uint32_t stop) {
  if (begin >= stop) return;
  std::memset(view_ + begin, kPoison, stop - begin);
  const std::uint32_t first = begin / kGranule;
  const std::uint32_t count = (stop + kGranule - 1) / kGranule - first;
  std::memset(&landing_[first], 0, count * sizeof(landing_[0]));
  std::memset(&seen_fence_[first], 0, count * sizeof(seen_fence_[0]));
}

const std::byte* engine_read(Block& block, std::uint32_t offset, const char* reader,
                             Location where) {
  SharedMemory& shared = block.shared;
  constexpr std::uint32_t kSize = SharedMemory::kGranule;
  if (!shared.contains(offset, kSize)) {
    fail_async(
        block, where,
        "the descriptor's address, leading and stride bytes, and the size of the launch's shared "
        "memory",
        "%s reads shared memory out of bounds: offset %u; the block has dynamic memory [%u, %u) "
        "and "
        "static up to %u",
        reader, offset, SharedMemory::kBase, SharedMemory::kBase + shared.dynamic_bytes(),
        shared.end());
    return nullptr;
  }
  if (shared.landing(offset) != 0) {
    fail_async(block, where,
               "a missing mbarrier_wait() before the multiplication, or a stage refilled too early",
               "race: %s reads shared memory at offset %u while tile copy #%u is landing there",
               reader, offset, shared.landing(offset));
    return nullptr;
  }
  const std::byte* memory = shared.at(offset);
  if (std::memcmp(memory, shared.view(offset), kSize) != 0) {
    if (!shared.fenced(offset)) {
      fail_async(
          block, where,
          "fence_proxy_async() by the writers after their stores, then a barrier, before the "
          "multiplication",
          "proxy: %s reads shared memory at offset %u that threads wrote without a "
          "fence.proxy.async after it",
          reader, offset);
      return nullptr;
    }
    std::memcpy(shared.view(offset), memory, kSize);
  }
  shared.seen_fence(offset) = shared.fence_count;
  sanitizer::access(memory, kSize, false);
  return memory;
}

// ------------------------------------------------------------------------- called by kernel source

void* dynamic_shared(std::size_t size_bytes, std::size_t alignment) {
  Block& block = this_thread().home();
  SharedMemory& shared = block.shared;
  if (size_bytes > shared.dynamic_bytes()) {
    const sanitizer::Mute mute;
    fail({}, "LaunchConfig::shared_bytes",
         "RUNGS_DYNAMIC_SHARED of %zu bytes, but the launch has %u", size_bytes,
         shared.dynamic_bytes());
  }
  if (alignment > SharedMemory::kBase) {
    const sanitizer::Mute mute;
    fail({}, "1024 suffices for every swizzle",
         "RUNGS_DYNAMIC_SHARED with alignment %zu, above 1024", alignment);
  }
  return shared.at(SharedMemory::kBase);
}

void* static_shared(const void* key, std::size_t size_bytes, std::size_t alignment) {
  const sanitizer::Mute mute;
  Block& block = this_thread().home();
  void* object = block.shared.static_object(key, size_bytes, alignment);
  if (object == nullptr) {
    fail({}, "less shared memory, or alignment up to 1024",
         "static shared object of %zu bytes (alignment %zu) does not fit: %u of %u bytes are taken",
         size_bytes, alignment, block.shared.end() - SharedMemory::kBase,
         SharedMemory::kLimitBytes);
  }
  return object;
}

namespace model {

std::uint32_t shared_address(const void* pointer, Location where) {
  Block& block = this_thread().home();
  const std::ptrdiff_t offset = static_cast<const std::byte*>(pointer) - block.shared.base();
  if (offset < 0 || offset >= static_cast<std::ptrdiff_t>(SharedMemory::kSlabBytes)) {
    const sanitizer::Mute mute;
    fail(where, "only objects declared with RUNGS_SHARED... have a shared address",
         "pointer %p is not in the block's shared memory", pointer);
  }
  return static_cast<std::uint32_t>(offset) | block.rank << 24;
}

std::uint32_t cluster_rank() { return this_thread().home().rank; }

std::uint32_t map_shared(std::uint32_t address, std::uint32_t rank, Location where) {
  const std::size_t size = this_thread().home().cluster->blocks.size();
  if (rank >= size) {
    const sanitizer::Mute mute;
    fail(where, "LaunchConfig::cluster", "mapa to rank %u in a cluster of %zu", rank, size);
  }
  return (address & 0xffffffu) | rank << 24;
}

void fence_proxy_async() {
  trace::instruction("fence.proxy.async", {});
  this_thread().home().shared.proxy_fence();
}

void fence_memory() {
  trace::instruction("fence.acq_rel", {});
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  static char token;  // TSan: conservative, orders all fences among each other
  sanitizer::acquire(&token);
  sanitizer::release(&token);
}

}  // namespace model
}  // namespace rungs::emulator
