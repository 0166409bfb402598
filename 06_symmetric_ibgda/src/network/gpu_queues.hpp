#pragma once
// GPU-initiated: the queues of all connections, laid open to kernels.

#include <rungs/core/deadline.hpp>
#include <rungs/gpu/buffer.hpp>
#include <rungs/gpu/host_registration.hpp>
#include <rungs/symmetric/network_args.hpp>

#include "network/connection.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace rungs::symmetric::detail {

class GpuQueues {
 public:
  // Maps the rings and doorbells of `connections`, which outlive this, and writes the structs.
  GpuQueues(const gpu::Device& device, int size, std::vector<Connection>& connections,
            const LocalMemory& local, std::uint32_t room, std::uint64_t max_message_bytes);

  [[nodiscard]] NetworkQueue* on_device() const noexcept { return queues_.data(); }
  // What an error completion says, if there is one. Any thread.
  [[nodiscard]] std::optional<NetworkFailure> failure() const;
  // Waits until all requests are completed. No kernel runs. False: `over` became true or time ran
  // out.
  bool drain(const Deadline& deadline, const std::function<bool()>& over);

 private:
  struct Raw {
    Connection* connection;
    verbs::mlx5::RawQueuePair pair;
    verbs::mlx5::RawCompletionQueue completions;
    gpu::HostRegistration pair_memory;
    gpu::HostRegistration completion_memory;
  };
  gpu::Device device_;
  std::vector<Raw> raw_;
  gpu::Buffer<NetworkQueue> queues_;    // [size]
  gpu::Buffer<NetworkQueue> snapshot_;  // where drain() copies them, pinned
};

}  // namespace rungs::symmetric::detail
