#pragma once
// Memory as the device reaches it: rings it shares with the driver, and registered regions behind
// keys.

#include <rungs/verbs/types.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace rungs::verbs::soft {

// Page-aligned, zeroed memory for rings and doorbell records.
class DmaBuffer {
 public:
  explicit DmaBuffer(std::size_t size_bytes);
  [[nodiscard]] std::byte* data() const noexcept { return memory_.get(); }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return size_bytes_; }  // whole pages
  template <class T>
  [[nodiscard]] T* at(std::size_t offset_bytes) const noexcept {
    return reinterpret_cast<T*>(memory_.get() + offset_bytes);
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept;
  };
  std::unique_ptr<std::byte[], Free> memory_;
  std::size_t size_bytes_ = 0;
};

// A local piece of memory as a WQE names it.
struct LocalSegment {
  std::uint64_t address = 0;
  std::uint32_t size_bytes = 0;
  std::uint32_t lkey = 0;
};

// The device's memory keys: index << 8 | variant. The variant changes each time an index is used
// anew, so that the key of a region that is gone is refused. One key serves as lkey and rkey, as in
// mlx5. Called under the engine's lock only.
class KeyTable {
 public:
  std::uint32_t add(std::uint32_t pd, void* data, std::size_t size_bytes, Access access);
  void remove(std::uint32_t key) noexcept;
  // Whether [address, address + size) lies in the region of `key`, of this protection domain, and
  // may be used so.
  [[nodiscard]] bool allowed(std::uint32_t key, std::uint32_t pd, std::uint64_t address,
                             std::uint64_t size_bytes, Access access) const noexcept;

 private:
  struct Entry {
    std::uint64_t address = 0;
    std::uint64_t size_bytes = 0;  // 0: not in use
    std::uint32_t pd = 0;
    Access access = Access::kLocalRead;
    std::uint8_t variant = 0;
  };
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> unused_;
};

// Copies by the device into and out of a program's memory. The program may poll what the device
// writes, and write what the device reads, with atomic loads and stores of 4 or 8 aligned bytes:
// packets of at most kPolledBytes and the last 64 bytes of longer ones are copied word by word, in
// ascending order, with release stores or acquire loads. Whoever sees a word (acquire) sees all
// that was written before it. Everything else is ordered by completions only.
inline constexpr std::size_t kPolledBytes = 256;
void copy_in(void* program_memory, const void* packet, std::size_t size_bytes) noexcept;
void copy_out(void* packet, const void* program_memory, std::size_t size_bytes) noexcept;

// Gathers `size` bytes from `offset` on out of the segments: into `staging`, or as they lie when
// one segment holds them all and they are too long to be polled. Nothing: a key refuses.
std::optional<std::span<const std::byte>> gather(const KeyTable& keys, std::uint32_t pd,
                                                 std::span<const LocalSegment> segments,
                                                 std::size_t offset, std::size_t size,
                                                 std::span<std::byte> staging) noexcept;

// Scatters `bytes` over the segments from `offset` on. False: a key refuses.
bool scatter(const KeyTable& keys, std::uint32_t pd, std::span<const LocalSegment> segments,
             std::size_t offset, std::span<const std::byte> bytes) noexcept;

}  // namespace rungs::verbs::soft
