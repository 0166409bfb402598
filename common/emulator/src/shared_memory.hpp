#pragma once
/// @file shared_memory.hpp
/// A block's shared memory: a slab laid out as on hardware (1 KB reserved, then dynamic, then
/// static objects), and, once asynchronous instructions use it, a second copy that shows what the
/// asynchronous proxy has seen.

#include <rungs/emulator/model.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rungs::emulator {

struct Block;

class SharedMemory {
 public:
  static constexpr std::uint32_t kBase = 1024;
  static constexpr std::uint32_t kLimitBytes = 227 * 1024;  // dynamic and static, as on Hopper
  static constexpr std::uint32_t kSlabBytes = kBase + kLimitBytes;
  static constexpr std::uint32_t kGranule = 16;

  SharedMemory();
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// Poisons what the launch declares; everything else must not be touched.
  /// @param keep_fences remember what memory held at proxy fences: for one block of a launch
  void load(std::uint32_t dynamic_bytes, bool keep_fences);
  /// Address of the static object `key`, created on first use; null if it does not fit.
  void* static_object(const void* key, std::size_t size_bytes, std::size_t alignment);

  [[nodiscard]] std::byte* at(std::uint32_t offset) const { return memory_ + offset; }
  [[nodiscard]] std::byte* base() const { return memory_; }
  [[nodiscard]] std::uint32_t dynamic_bytes() const { return dynamic_bytes_; }
  [[nodiscard]] std::uint32_t end() const { return end_; }
  /// Whether [offset, offset + size) is declared memory.
  [[nodiscard]] bool contains(std::uint32_t offset, std::uint64_t size_bytes) const {
    const std::uint64_t stop = offset + size_bytes;
    const std::uint32_t dynamic_end = kBase + dynamic_bytes_;
    return (offset >= kBase && stop <= dynamic_end) || (offset >= dynamic_end && stop <= end_);
  }

  // --- the asynchronous proxy's view, by 16-byte granules
  void track();  // idempotent
  [[nodiscard]] bool tracked() const { return tracking_; }
  [[nodiscard]] const std::byte* view(std::uint32_t offset) const { return view_ + offset; }
  [[nodiscard]] std::byte* view(std::uint32_t offset) { return view_ + offset; }
  /// Id of the copy that is landing on the granule; 0: none.
  std::uint32_t& landing(std::uint32_t offset) { return landing_[offset / kGranule]; }
  /// Number of proxy fences when the granule was last seen by the proxy.
  std::uint32_t& seen_fence(std::uint32_t offset) { return seen_fence_[offset / kGranule]; }
  /// Whether the proxy's view of the granule is what memory holds.
  [[nodiscard]] bool view_is_current(std::uint32_t offset) const {
    std::uint64_t memory[2], seen[2];
    __builtin_memcpy(memory, memory_ + offset, sizeof(memory));
    __builtin_memcpy(seen, view_ + offset, sizeof(seen));
    return ((memory[0] ^ seen[0]) | (memory[1] ^ seen[1])) == 0;
  }
  /// fence.proxy.async by one of the block's threads.
  void proxy_fence();
  /// Whether a granule that is not what the proxy saw last was fenced: a fence came since then,
  /// and, as far as fences are kept, nothing was written after the last one.
  [[nodiscard]] bool fenced(std::uint32_t offset) const;
  std::uint32_t fence_count = 0;

 private:
  void poison(std::uint32_t begin, std::uint32_t stop);
  void reset_tracking(std::uint32_t begin, std::uint32_t stop);

  struct Object {
    const void* key;
    std::uint32_t offset;
    std::uint32_t size_bytes;
  };
  std::byte* memory_;
  std::byte* view_ = nullptr;
  std::byte* at_fence_ = nullptr;  // memory at the last fence, while fence_count is below the limit
  bool keep_fences_ = false;
  std::uint32_t dynamic_bytes_ = 0;
  std::uint32_t end_ = kBase;
  bool tracking_ = false;
  std::vector<Object> objects_;
  std::vector<std::uint32_t> landing_;
  std::vector<std::uint32_t> seen_fence_;
};

/// For an asynchronous engine that reads the granule at `offset`: bounds, a copy still landing, a
/// missing proxy fence. Null after reporting.
const std::byte* engine_read(Block& block, std::uint32_t offset, const char* reader,
                             Location where);

}  // namespace rungs::emulator
