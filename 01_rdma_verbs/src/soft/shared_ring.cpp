#include "shared_ring.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

namespace rungs::verbs::soft {
namespace {

constexpr std::size_t kRecordAlignment = 64;
constexpr std::size_t kRecordHeaderBytes = 8;
constexpr std::uint32_t kStartOver = 0xffffffff;  // in place of a size: the next record is at 0
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

constexpr std::size_t record_bytes(std::size_t packet_bytes) {
  return (kRecordHeaderBytes + packet_bytes + kRecordAlignment - 1) / kRecordAlignment *
         kRecordAlignment;
}

// The rings that this process has mapped, by their file.
struct Registry {
  using Key = std::pair<dev_t, ino_t>;
  std::mutex mutex;
  std::map<Key, std::weak_ptr<RingMemory>> rings;
};
Registry& registry() {
  static Registry* const rings = new Registry;  // outlives every device, static ones too
  return *rings;
}

}  // namespace

std::shared_ptr<RingMemory> RingMemory::map_or_share(int file) {
  struct stat status {};
  if (::fstat(file, &status) != 0) return nullptr;
  Registry& shared = registry();
  const std::lock_guard lock(shared.mutex);
  std::erase_if(shared.rings, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<RingMemory>& known = shared.rings[{status.st_dev, status.st_ino}];
  if (std::shared_ptr<RingMemory> ring = known.lock()) return ring;
  void* const base = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (base == MAP_FAILED) return nullptr;
  std::shared_ptr<RingMemory> ring(new RingMemory(base));
  known = ring;
  return ring;
}

std::shared_ptr<RingMemory> RingMemory::create(Descriptor& file) {
  file = Descriptor(::memfd_create("rungs-verbs-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || ::ftruncate(file.get(), kBytes) != 0) return nullptr;
  if (::fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) return nullptr;
  std::shared_ptr<RingMemory> ring = map_or_share(file.get());
  if (ring) new (ring->base_) RingHeader{};
  return ring;
}

std::shared_ptr<RingMemory> RingMemory::map(const Descriptor& file) {
  struct stat status {};
  const bool right_size =
      ::fstat(file.get(), &status) == 0 && status.st_size == static_cast<off_t>(kBytes);
  if (!right_size || ::fcntl(file.get(), F_GET_SEALS) != kSeals) return nullptr;
  return map_or_share(file.get());
}

RingMemory::~RingMemory() { ::munmap(base_, kBytes); }

bool RingSender::has_room(std::uint64_t bytes) {
  return RingMemory::kDataBytes - (head_ - seen_tail_) >= bytes;
}

bool RingSender::push(std::span<const std::byte> packet) {
  RingHeader& header = memory_->header();
  // 1. Where it goes, and what is skipped at the end of the ring.
  const std::size_t record = record_bytes(packet.size());
  const std::size_t at = head_ % RingMemory::kDataBytes;
  const std::size_t to_end = RingMemory::kDataBytes - at;
  const std::size_t skipped = to_end < record ? to_end : 0;
  // 2. Room: first by what is known, then by what the receiver says, then with the flag set.
  if (!has_room(skipped + record)) {
    seen_tail_ = header.tail.load(std::memory_order_acquire);
    if (!has_room(skipped + record)) {
      header.sender_blocked.store(1, std::memory_order_seq_cst);
      seen_tail_ = header.tail.load(std::memory_order_seq_cst);
      if (!has_room(skipped + record)) return false;
    }
  }
  // 3. Write, then publish.
  if (skipped != 0) std::memcpy(memory_->data() + at, &kStartOver, sizeof(kStartOver));
  std::byte* const to = memory_->data() + (skipped != 0 ? 0 : at);
  const auto size = static_cast<std::uint32_t>(packet.size());
  std::memcpy(to, &size, sizeof(size));
  std::memcpy(to + kRecordHeaderBytes, packet.data(), packet.size());
  head_ += skipped + record;
  header.head.store(head_, std::memory_order_seq_cst);
  return true;
}

bool RingSender::take_receiver_sleeps() {
  std::atomic<std::uint32_t>& sleeps = memory_->header().receiver_sleeps;
  return sleeps.load(std::memory_order_seq_cst) != 0 && sleeps.exchange(0) != 0;
}

std::optional<std::size_t> RingReceiver::pop(std::span<std::byte> into) {
  RingHeader& header = memory_->header();
  if (seen_head_ == tail_) {
    seen_head_ = header.head.load(std::memory_order_acquire);
    if (seen_head_ == tail_) return 0;
  }
  // The sender is another process, perhaps a broken one: nothing it wrote is used unchecked.
  std::uint64_t available = seen_head_ - tail_;
  if (available > RingMemory::kDataBytes || available % kRecordAlignment != 0) return std::nullopt;
  std::size_t at = tail_ % RingMemory::kDataBytes;
  std::uint32_t size;
  std::memcpy(&size, memory_->data() + at, sizeof(size));
  if (size == kStartOver) {
    const std::size_t skipped = RingMemory::kDataBytes - at;
    if (at == 0 || available <= skipped) return std::nullopt;
    tail_ += skipped;
    available -= skipped;
    at = 0;
    std::memcpy(&size, memory_->data(), sizeof(size));
  }
  const std::size_t record = record_bytes(size);
  if (size == 0 || size > into.size() || record > available ||
      record > RingMemory::kDataBytes - at) {
    return std::nullopt;
  }
  std::memcpy(into.data(), memory_->data() + at + kRecordHeaderBytes, size);
  tail_ += record;
  header.tail.store(tail_, std::memory_order_seq_cst);
  return size;
}

bool RingReceiver::empty() const {
  return memory_->header().head.load(std::memory_order_seq_cst) == tail_;
}

bool RingReceiver::take_sender_blocked() {
  // Looked at once a quarter of the ring, and when it is empty: a sender that is woken for one
  // packet's room would be asleep again at once.
  const bool drained = seen_head_ == tail_;
  if (!drained && tail_ - asked_at_ < RingMemory::kDataBytes / 4) return false;
  asked_at_ = tail_;
  std::atomic<std::uint32_t>& blocked = memory_->header().sender_blocked;
  return blocked.load(std::memory_order_seq_cst) != 0 && blocked.exchange(0) != 0;
}

void RingReceiver::set_sleeps(bool sleeps) {
  memory_->header().receiver_sleeps.store(sleeps ? 1 : 0, std::memory_order_seq_cst);
}

}  // namespace rungs::verbs::soft
