#pragma once
// Proxy: a thread of the CPU that posts what kernels write into a ring in host memory.

#include <rungs/core/deadline.hpp>
#include <rungs/gpu/buffer.hpp>
#include <rungs/symmetric/network_args.hpp>

#include "network/connection.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace rungs::symmetric::detail {

class Proxy {
 public:
  // Starts the thread. `connections` outlive this; nobody else posts to them.
  Proxy(const gpu::Device& device, int rank, int size, std::vector<Connection>& connections,
        const LocalMemory& local, std::uint32_t slots, std::uint64_t max_message_bytes);
  // Ends the thread, whatever the ring still holds.
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  [[nodiscard]] ProxyQueue* on_device() const noexcept { return queue_.data(); }
  // The first request that failed. Any thread.
  [[nodiscard]] std::optional<NetworkFailure> failure() const;
  // Waits until all that kernels posted is completed. No kernel runs. False: `over` became true or
  // time ran out.
  bool drain(const Deadline& deadline, const std::function<bool()>& over);

 private:
  // A descriptor under way, and how much of it is posted.
  struct Work {
    ProxyDescriptor descriptor;
    std::uint64_t sent_bytes = 0;
  };

  void run();
  bool take_completions();
  bool take_descriptor();
  bool forward();
  [[nodiscard]] bool post_next(Connection& connection, bool& finished);
  void fail(NetworkFailure failure);
  [[nodiscard]] std::uint64_t* done(int peer) const noexcept {
    return counts_.data() + (1 + peer) * kProxyDoneStride;
  }

  gpu::Device device_;
  int rank_;
  std::vector<Connection>& connections_;
  std::vector<Connection*> by_peer_;  // [size]; null: not over the network
  LocalMemory local_;
  std::uint32_t slots_;
  std::uint64_t max_message_bytes_;
  gpu::Buffer<ProxyDescriptor> ring_;    // host-mapped
  gpu::Buffer<std::uint64_t> counts_;    // host-mapped: taken, then done of each peer
  gpu::Buffer<std::uint64_t> posted_;    // [size], device
  gpu::Buffer<std::uint64_t> snapshot_;  // where drain() copies them, pinned
  gpu::Buffer<ProxyQueue> queue_;
  // The thread's own.
  std::uint64_t taken_ = 0;
  std::vector<std::uint64_t> forwarded_;  // [size]: descriptors posted for each peer
  std::optional<Work> work_;

  mutable std::mutex mutex_;
  std::optional<NetworkFailure> failure_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace rungs::symmetric::detail
