#include "memory.hpp"

#include <rungs/core/error.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace rungs::verbs::soft {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kTailBytes = 64;
constexpr std::uint32_t kFirstIndex = 2;  // no key is 0 or the invalid lkey 0x100

std::uint64_t address_of(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

template <class Word>
void store_words(std::byte*& to, const std::byte*& from, std::size_t& left) noexcept {
  Word word;
  std::memcpy(&word, from, sizeof word);
  __atomic_store_n(reinterpret_cast<Word*>(to), word, __ATOMIC_RELEASE);
  to += sizeof word, from += sizeof word, left -= sizeof word;
}

template <class Word>
void load_words(std::byte*& to, const std::byte*& from, std::size_t& left) noexcept {
  const Word word = __atomic_load_n(reinterpret_cast<const Word*>(from), __ATOMIC_ACQUIRE);
  std::memcpy(to, &word, sizeof word);
  to += sizeof word, from += sizeof word, left -= sizeof word;
}

// The bytes before the word-wise tail of a copy to or from `program_memory`.
std::size_t bulk_bytes(const void* program_memory, std::size_t size) noexcept {
  if (size <= kPolledBytes) return 0;
  const std::uint64_t tail = (address_of(program_memory) + size - kTailBytes) & ~std::uint64_t{7};
  return tail - address_of(program_memory);
}

// Calls one of the three with the widest word that `program` is aligned for.
template <class Eight, class Four, class One>
void by_words(const std::byte* const& program, const std::size_t& left, Eight eight, Four four,
              One one) noexcept {
  while (left > 0) {
    const std::uint64_t address = address_of(program);
    if (address % 8 == 0 && left >= 8) {
      eight();
    } else if (address % 4 == 0 && left >= 4) {
      four();
    } else {
      one();
    }
  }
}

// Calls body(address, size) for each piece of [offset, offset + size) of the segments.
template <class Body>
bool for_pieces(const KeyTable& keys, std::uint32_t pd, std::span<const LocalSegment> segments,
                std::size_t offset, std::size_t size, Access access, Body body) noexcept {
  for (const LocalSegment& segment : segments) {
    if (size == 0) return true;
    if (offset >= segment.size_bytes) {
      offset -= segment.size_bytes;
      continue;
    }
    const std::size_t piece = std::min<std::size_t>(segment.size_bytes - offset, size);
    const std::uint64_t address = segment.address + offset;
    if (!keys.allowed(segment.lkey, pd, address, piece, access)) return false;
    body(reinterpret_cast<std::byte*>(address), piece);
    offset = 0;
    size -= piece;
  }
  return size == 0;
}

}  // namespace

void DmaBuffer::Free::operator()(std::byte* memory) const noexcept { std::free(memory); }

DmaBuffer::DmaBuffer(std::size_t size_bytes) {
  const std::size_t rounded = (size_bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kPageBytes, rounded)));
  if (!memory_) RUNGS_THROW(kSystem, "soft HCA: no memory for a ring of ", rounded, " bytes");
  std::memset(memory_.get(), 0, rounded);
  size_bytes_ = rounded;
}

std::uint32_t KeyTable::add(std::uint32_t pd, void* data, std::size_t size_bytes, Access access) {
  std::uint32_t index = 0;
  if (unused_.empty()) {
    index = static_cast<std::uint32_t>(entries_.size());
    entries_.emplace_back();
    unused_.reserve(entries_.capacity());  // remove() must not throw
  } else {
    index = unused_.back();
    unused_.pop_back();
  }
  Entry& entry = entries_[index];
  entry.address = address_of(data);
  entry.size_bytes = size_bytes;
  entry.pd = pd;
  entry.access = access;
  ++entry.variant;
  return (index + kFirstIndex) << 8 | entry.variant;
}

void KeyTable::remove(std::uint32_t key) noexcept {
  const std::uint32_t index = (key >> 8) - kFirstIndex;
  entries_[index].size_bytes = 0;
  unused_.push_back(index);
}

bool KeyTable::allowed(std::uint32_t key, std::uint32_t pd, std::uint64_t address,
                       std::uint64_t size_bytes, Access access) const noexcept {
  const std::uint32_t index = (key >> 8) - kFirstIndex;  // wraps to a large one for key < 0x200
  if (index >= entries_.size()) return false;
  const Entry& entry = entries_[index];
  return entry.size_bytes > 0 && entry.variant == (key & 0xff) && entry.pd == pd &&
         allows(entry.access, access) && address >= entry.address &&
         size_bytes <= entry.size_bytes && address - entry.address <= entry.size_bytes - size_bytes;
}

void copy_in(void* program_memory, const void* packet, std::size_t size_bytes) noexcept {
  auto* to = static_cast<std::byte*>(program_memory);
  auto* from = static_cast<const std::byte*>(packet);
  const std::size_t bulk = bulk_bytes(to, size_bytes);
  if (bulk > 0) std::memcpy(to, from, bulk);
  to += bulk, from += bulk;
  std::size_t left = size_bytes - bulk;
  const std::byte* const& program = to;
  by_words(
      program, left, [&] { store_words<std::uint64_t>(to, from, left); },
      [&] { store_words<std::uint32_t>(to, from, left); },
      [&] { store_words<std::uint8_t>(to, from, left); });
}

void copy_out(void* packet, const void* program_memory, std::size_t size_bytes) noexcept {
  auto* to = static_cast<std::byte*>(packet);
  auto* from = static_cast<const std::byte*>(program_memory);
  const std::size_t bulk = bulk_bytes(from, size_bytes);
  if (bulk > 0) std::memcpy(to, from, bulk);
  to += bulk, from += bulk;
  std::size_t left = size_bytes - bulk;
  by_words(
      from, left, [&] { load_words<std::uint64_t>(to, from, left); },
      [&] { load_words<std::uint32_t>(to, from, left); },
      [&] { load_words<std::uint8_t>(to, from, left); });
}

std::optional<std::span<const std::byte>> gather(const KeyTable& keys, std::uint32_t pd,
                                                 std::span<const LocalSegment> segments,
                                                 std::size_t offset, std::size_t size,
                                                 std::span<std::byte> staging) noexcept {
  std::span<const std::byte> result = staging.first(size);
  std::size_t done = 0;
  const bool ok = for_pieces(keys, pd, segments, offset, size, Access::kLocalRead,
                             [&](const std::byte* from, std::size_t piece) {
                               if (piece == size && size > kPolledBytes) {
                                 result = {from, size};
                               } else {
                                 copy_out(staging.data() + done, from, piece);
                               }
                               done += piece;
                             });
  if (!ok) return std::nullopt;
  return result;
}

bool scatter(const KeyTable& keys, std::uint32_t pd, std::span<const LocalSegment> segments,
             std::size_t offset, std::span<const std::byte> bytes) noexcept {
  std::size_t done = 0;
  return for_pieces(keys, pd, segments, offset, bytes.size(), Access::kLocalWrite,
                    [&](std::byte* to, std::size_t piece) {
                      copy_in(to, bytes.data() + done, piece);
                      done += piece;
                    });
}

}  // namespace rungs::verbs::soft
