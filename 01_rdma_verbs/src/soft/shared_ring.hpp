#pragma once
// A ring of packets in memory that a sender and a receiver map, in one process or in two.
//
//   tail (receiver)        head (sender)
//     v                      v
//   | size packet | size pkt |        free         |   records start at multiples of 64 bytes;
//                                                      one that would cross the end starts over
//
// flag               writer     reader     who resets
// head               sender     receiver   nobody: it counts bytes since the ring was made
// tail               receiver   sender     nobody
// receiver_sleeps    receiver   sender     the sender that rings for it, the receiver when awake
// sender_blocked     sender     receiver   the receiver that rings for it
//
// Both flags follow Dekker: set the flag, then look at the counter once more; move the counter,
// then look at the flag. All four accesses are sequentially consistent, so one side sees the other.
//
// No allocation follows what a peer writes: sizes are checked, and a ring that makes no sense ends.

#include "wake_event.hpp"
#include "wire.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace rungs::verbs::soft {

struct RingHeader {
  alignas(64) std::atomic<std::uint64_t> head;
  alignas(64) std::atomic<std::uint64_t> tail;
  alignas(64) std::atomic<std::uint32_t> receiver_sleeps;
  alignas(64) std::atomic<std::uint32_t> sender_blocked;
};
static_assert(sizeof(RingHeader) == 256);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free,
              "or it does not work across processes");

// The memory. Two ends in one process share one mapping: the same bytes at two addresses would hide
// the ring's ordering from ThreadSanitizer.
class RingMemory {
 public:
  static constexpr std::size_t kDataBytes = 512 * 1024;
  static constexpr std::size_t kBytes = sizeof(RingHeader) + kDataBytes;

  // Empty when the system has no memory or descriptor left; errno says which.
  static std::shared_ptr<RingMemory> create(Descriptor& file);
  // Maps a peer's file. Empty when it is not a sealed file of that size: a file that its owner may
  // cut would end in SIGBUS here.
  static std::shared_ptr<RingMemory> map(const Descriptor& file);
  ~RingMemory();
  RingMemory(const RingMemory&) = delete;
  RingMemory& operator=(const RingMemory&) = delete;

  [[nodiscard]] RingHeader& header() noexcept { return *static_cast<RingHeader*>(base_); }
  [[nodiscard]] std::byte* data() noexcept {
    return static_cast<std::byte*>(base_) + sizeof(RingHeader);
  }

 private:
  explicit RingMemory(void* base) : base_(base) {}
  static std::shared_ptr<RingMemory> map_or_share(int file);
  void* base_;
};

class RingSender {
 public:
  explicit RingSender(std::shared_ptr<RingMemory> memory) : memory_(std::move(memory)) {}
  // False: full. The receiver will ring once there is room.
  bool push(std::span<const std::byte> packet);
  // Whether the receiver sleeps and must be rung for; resets the flag.
  bool take_receiver_sleeps();

 private:
  bool has_room(std::uint64_t bytes);
  std::shared_ptr<RingMemory> memory_;
  std::uint64_t head_ = 0;
  std::uint64_t seen_tail_ = 0;
};

class RingReceiver {
 public:
  explicit RingReceiver(std::shared_ptr<RingMemory> memory) : memory_(std::move(memory)) {}
  // The packet's size; 0: none; nothing: the sender wrote nonsense.
  std::optional<std::size_t> pop(std::span<std::byte> into);
  [[nodiscard]] bool empty() const;
  // Whether the sender waits for room and must be rung for; resets the flag. Asked after pop().
  bool take_sender_blocked();
  void set_sleeps(bool sleeps);

 private:
  std::shared_ptr<RingMemory> memory_;
  std::uint64_t tail_ = 0;
  std::uint64_t seen_head_ = 0;
  std::uint64_t asked_at_ = 0;
};

}  // namespace rungs::verbs::soft
