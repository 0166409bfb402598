#pragma once
// The device's thread: looks at doorbells, takes packets, lets each queue pair send, watches
// timers. Control calls (create, connect, destroy, register) stop it for a moment.

#include "hca.hpp"
#include "qp_context.hpp"
#include "rings.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

namespace rungs::verbs::soft {

class Engine final : public DoorbellWake {
 public:
  explicit Engine(const SoftOptions& options);
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // The device stands still while the caller holds this: what hca() and queue pairs' contexts are
  // touched under.
  class [[nodiscard]] Pause {
   public:
    explicit Pause(Engine& engine);

   private:
    std::unique_lock<std::mutex> lock_;
  };

  // All under a Pause.
  [[nodiscard]] Hca& hca() noexcept { return hca_; }
  void add(QpContext& qp);
  void remove(QpContext& qp) noexcept;
  [[nodiscard]] bool has(std::uint32_t qp_number) const { return by_number_.count(qp_number) > 0; }
  // From now on doorbells may be written by somebody who cannot wake the device.
  void expect_silent_doorbells() noexcept { silent_doorbells_ = true; }

  // Any thread.
  void doorbell_written() noexcept override;
  // The same after a store that was not sequentially consistent.
  void raw_doorbell_written() noexcept;
  [[nodiscard]] WireCounters counters() const noexcept;

 private:
  void run();
  void loop();
  bool turn();
  bool take_doorbells();
  bool take_packets(bool& drained);
  void deliver(std::span<const std::byte> bytes, const WireAddress& from);
  void sleep();
  void fail_everything() noexcept;

  Hca hca_;
  std::vector<QpContext*> queue_pairs_;
  std::unordered_map<std::uint32_t, QpContext*> by_number_;
  std::vector<std::byte> packet_;
  std::uint64_t dropped_ = 0;  // counted by the wire
  bool silent_doorbells_ = false;
  std::mutex mutex_;
  std::atomic<unsigned> pausing_{0};  // control calls that wait for mutex_
  std::atomic<bool> asleep_{false};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace rungs::verbs::soft
