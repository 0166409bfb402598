#include "stream_order.hpp"

#include "stream_state.hpp"

#include <rungs/core/error.hpp>
#include <rungs/gpu/launch.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <mutex>
#include <string>

namespace rungs::gpu::detail {
namespace {

// A place in a stream, and what stands there.
struct Place {
  std::uint64_t stream = 0;
  std::uint64_t position = 0;
  std::string what;
};

struct Range {
  std::size_t size_bytes = 0;
  Place allocated;
  bool released = false;
  Place release;
  std::map<std::uint64_t, Place> last_uses;  // by stream
};

struct Account {
  std::mutex mutex;
  Clock host;
  std::map<std::uintptr_t, Range> ranges;  // released ones stay until their place is taken again
};

Account& account() {
  static auto* const all = new Account;  // streams may outlive static objects
  return *all;
}

// Whether there has ever been stream-ordered memory: before, nothing needs an order.
std::atomic<bool> in_use = false;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

void join(Clock& clock, const Clock& other) {
  for (const auto& [stream, position] : other) {
    std::uint64_t& mine = clock[stream];
    mine = std::max(mine, position);
  }
}

bool comes_before(const Place& place, const Clock& clock) {
  const auto found = clock.find(place.stream);
  return found != clock.end() && found->second >= place.position;
}

// With the mutex held: the stream's next place.
Place next_place(StreamState& stream, std::string what) {
  join(stream.clock, account().host);
  const std::uint64_t position = ++stream.clock[stream.number()];
  return {stream.number(), position, std::move(what)};
}

void check_use(StreamState& stream, std::uintptr_t first, Range& range, const std::string& what) {
  const Place use = next_place(stream, concat(what, " on ", stream.describe()));
  RUNGS_REQUIRE(!range.released, use.what, " uses memory at ", reinterpret_cast<void*>(first), " (",
                range.size_bytes, " bytes) after its ", range.release.what,
                "; look for: a buffer released before its last use was submitted");
  RUNGS_REQUIRE(comes_before(range.allocated, stream.clock), use.what, " uses memory at ",
                reinterpret_cast<void*>(first), " (", range.size_bytes,
                " bytes) and is not ordered behind its ", range.allocated.what,
                "; look for: an event recorded after the allocation that this stream waits for");
  range.last_uses[use.stream] = use;
}

// The range that `address` lies in, or the first one after it.
auto range_at(std::uintptr_t address) {
  auto& ranges = account().ranges;
  auto found = ranges.upper_bound(address);
  if (found != ranges.begin()) {
    const auto before = std::prev(found);
    if (address < before->first + before->second.size_bytes) return before;
  }
  return found;
}

// With the mutex held.
void erase(std::uintptr_t first, std::size_t size_bytes) {
  auto& ranges = account().ranges;
  for (auto old = range_at(first); old != ranges.end() && old->first < first + size_bytes;)
    old = ranges.erase(old);
}

}  // namespace

Clock order_of(StreamState& stream) {
  if (!in_use.load(std::memory_order_acquire)) return {};
  const std::lock_guard lock(account().mutex);
  join(stream.clock, account().host);
  return stream.clock;
}

void order_behind(StreamState& stream, const Clock& before) {
  if (before.empty()) return;
  const std::lock_guard lock(account().mutex);
  join(stream.clock, before);
}

void order_host_behind(const Clock& before) {
  if (before.empty()) return;
  const std::lock_guard lock(account().mutex);
  join(account().host, before);
}

void note_allocation(StreamState& stream, const void* memory, std::size_t size_bytes) {
  in_use.store(true, std::memory_order_release);
  const std::lock_guard lock(account().mutex);
  const auto first = reinterpret_cast<std::uintptr_t>(memory);
  erase(first, size_bytes);
  Range range;
  range.size_bytes = size_bytes;
  range.allocated = next_place(stream, concat("allocation on ", stream.describe()));
  account().ranges[first] = std::move(range);
}

void forget_released(const void* memory, std::size_t size_bytes) {
  if (!in_use.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(account().mutex);
  erase(reinterpret_cast<std::uintptr_t>(memory), size_bytes);
}

std::size_t note_release(StreamState& stream, const void* memory) {
  const std::lock_guard lock(account().mutex);
  const auto found = account().ranges.find(reinterpret_cast<std::uintptr_t>(memory));
  RUNGS_REQUIRE(found != account().ranges.end() && !found->second.released,
                "stream-ordered release: ", memory, " is not allocated in stream order");
  Range& range = found->second;
  Place release = next_place(stream, concat("release on ", stream.describe()));
  RUNGS_REQUIRE(comes_before(range.allocated, stream.clock), release.what, " of memory at ", memory,
                " is not ordered behind its ", range.allocated.what,
                "; look for: an event recorded after the allocation that this stream waits for");
  for (const auto& [number, use] : range.last_uses) {
    RUNGS_REQUIRE(comes_before(use, stream.clock), release.what, " of memory at ", memory, " (",
                  range.size_bytes, " bytes) is not ordered behind its use by ", use.what,
                  "; look for: an event recorded after the last use that this stream waits for");
  }
  range.released = true;
  range.release = std::move(release);
  return range.size_bytes;
}

void note_use(StreamState& stream, const void* begin, std::size_t size_bytes,
              std::string_view what) {
  if (!in_use.load(std::memory_order_acquire) || stream.capture() != nullptr) return;
  const std::lock_guard lock(account().mutex);
  const auto first = reinterpret_cast<std::uintptr_t>(begin);
  for (auto range = range_at(first);
       range != account().ranges.end() && range->first < first + size_bytes; ++range) {
    check_use(stream, range->first, range->second, std::string(what));
  }
}

void note_uses(StreamState& stream, const KernelArgs& args, std::string_view kernel) {
  if (!in_use.load(std::memory_order_acquire)) return;
  for (int i = 0; i < args.count; i++) {
    const auto* bytes = static_cast<const std::byte*>(args.pointers[i]);
    for (std::size_t at = 0; at + sizeof(void*) <= args.sizes_bytes[i]; at += sizeof(void*)) {
      const void* pointer = nullptr;
      std::memcpy(&pointer, bytes + at, sizeof(pointer));
      note_use(stream, pointer, 1, concat("kernel ", kernel));
    }
  }
}

}  // namespace rungs::gpu::detail
