// A bad network on demand: what a device sends is lost, repeated, reordered or late, packet by
// packet, by numbers drawn from a seed.

#include "wire.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace rungs::verbs::soft {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxHeld = 1024;  // packets under way; further ones must wait, as for a link
// A packet that is to be overtaken goes after this time if nothing follows to overtake it.
constexpr std::chrono::milliseconds kLongestHold{1};

// SplitMix64: the same draws on every machine.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : state_(seed) {}
  bool happens(double share) {
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    z ^= z >> 31;
    return static_cast<double>(z >> 11) * 0x1p-53 < share;
  }

 private:
  std::uint64_t state_;
};

class FaultyWire final : public PacketWire {
 public:
  FaultyWire(std::unique_ptr<PacketWire> wire, const SoftOptions& options,
             std::uint64_t* packets_dropped)
      : wire_(std::move(wire)),
        options_(options),
        delay_(std::chrono::duration_cast<Clock::duration>(
            std::chrono::duration<double>(options.delay_seconds))),
        dropped_(packets_dropped),
        draws_(options.seed) {}

  // What is under way arrives after its sender is gone: on a network it would.
  ~FaultyWire() override {
    release_overtaken();
    for (const Packet& packet : queue_) wire_->send(packet.to, packet.bytes);
  }
  FaultyWire(const FaultyWire&) = delete;
  FaultyWire& operator=(const FaultyWire&) = delete;

  WireAddress local() const override { return wire_->local(); }

  bool send(const WireAddress& to, std::span<const std::byte> bytes) override {
    const std::lock_guard lock(mutex_);
    pass_on();
    if (queue_.size() >= kMaxHeld) return false;
    // Always three draws a packet, so that one knob does not change what the others do.
    const bool lost = draws_.happens(options_.loss);
    const bool twice = draws_.happens(options_.duplicate);
    const bool late = draws_.happens(options_.reorder);
    if (lost) {
      // Another thread reads the count.
      std::atomic_ref<std::uint64_t>(*dropped_).fetch_add(1, std::memory_order_relaxed);
      return true;
    }
    Packet packet{Clock::now() + delay_, to, {bytes.begin(), bytes.end()}};
    if (twice) queue_.push_back(packet);
    if (late && !overtaken_) {
      packet.due += kLongestHold;
      overtaken_ = std::move(packet);
    } else {
      const Clock::time_point due = packet.due;
      queue_.push_back(std::move(packet));
      if (overtaken_) {
        overtaken_->due = due;
        release_overtaken();
      }
    }
    pass_on();
    const std::optional<Clock::time_point> due = next_due();
    if (due && *due < waits_until_) wire_->wake();  // or wait() would sleep past it
    return true;
  }

  std::size_t receive(std::span<std::byte> into, WireAddress& from) override {
    const std::lock_guard lock(mutex_);
    pass_on();
    return wire_->receive(into, from);
  }

  void wait(double seconds) override {
    {
      const std::lock_guard lock(mutex_);
      const Clock::time_point now = Clock::now();
      const std::optional<Clock::time_point> due = next_due();
      // A packet that is due and still here waits for the wire below, which knows when to wake.
      if (due && *due > now) {
        seconds = std::min(seconds, std::chrono::duration<double>(*due - now).count());
      }
      waits_until_ = due && *due > now ? *due : Clock::time_point::max();
    }
    wire_->wait(seconds);
    const std::lock_guard lock(mutex_);
    waits_until_ = Clock::time_point::min();
    pass_on();
  }

  void wake() noexcept override { wire_->wake(); }
  void connect(const WireAddress& to) override { wire_->connect(to); }

 private:
  struct Packet {
    Clock::time_point due;
    WireAddress to;
    std::vector<std::byte> bytes;
  };

  void release_overtaken() {
    if (!overtaken_) return;
    queue_.push_back(std::move(*overtaken_));
    overtaken_.reset();
  }

  [[nodiscard]] std::optional<Clock::time_point> next_due() const {
    if (!queue_.empty()) return queue_.front().due;
    if (overtaken_) return overtaken_->due;
    return std::nullopt;
  }

  // Sends what is due, in the queue's order, as far as the wire takes it.
  void pass_on() {
    if (queue_.empty() && !overtaken_) return;
    const Clock::time_point now = Clock::now();
    if (overtaken_ && overtaken_->due <= now) release_overtaken();
    while (!queue_.empty() && queue_.front().due <= now) {
      if (!wire_->send(queue_.front().to, queue_.front().bytes)) return;
      queue_.pop_front();
    }
  }

  std::unique_ptr<PacketWire> wire_;
  SoftOptions options_;
  Clock::duration delay_;
  std::uint64_t* dropped_;
  Draws draws_;
  std::deque<Packet> queue_;                                  // in the order of `due`
  std::optional<Packet> overtaken_;                           // goes behind the next packet
  std::mutex mutex_;                                          // wait() runs beside the others
  Clock::time_point waits_until_ = Clock::time_point::min();  // what wait() knew; min: nobody waits
};

}  // namespace

std::unique_ptr<PacketWire> with_faults(std::unique_ptr<PacketWire> wire,
                                        const SoftOptions& options,
                                        std::uint64_t* packets_dropped) {
  const bool faultless = options.loss == 0 && options.duplicate == 0 && options.reorder == 0 &&
                         options.delay_seconds == 0;
  if (faultless) return wire;
  return std::make_unique<FaultyWire>(std::move(wire), options, packets_dropped);
}

}  // namespace rungs::verbs::soft
