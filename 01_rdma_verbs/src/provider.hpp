#pragma once
// What a provider (the software HCA, rdma-core) implements. The public objects hand each call on.

#include <rungs/core/error.hpp>
#include <rungs/verbs/device.hpp>

#include <memory>
#include <string_view>
#include <vector>

namespace rungs::verbs::provider {

class MemoryRegion {
 public:
  virtual ~MemoryRegion() = default;
  void* data = nullptr;
  std::size_t size_bytes = 0;
  std::uint32_t lkey = 0;
  std::uint32_t rkey = 0;
};

class CompletionQueue {
 public:
  virtual ~CompletionQueue() = default;
  virtual std::size_t poll(std::span<Completion> out) noexcept = 0;
  virtual bool overflowed() const noexcept = 0;
  virtual unsigned depth() const noexcept = 0;
  virtual mlx5::RawCompletionQueue raw_queue() {
    RUNGS_THROW(kUnsupported,
                "raw_queue: this provider does not give its completion queue away; "
                "the software HCA does");
  }
};

class QueuePair {
 public:
  virtual ~QueuePair() = default;
  virtual std::uint32_t number() const noexcept = 0;
  virtual QpAddress address() const = 0;
  virtual void connect(const QpAddress& remote) = 0;
  virtual PostResult post_send(std::span<const SendRequest> requests) noexcept = 0;
  virtual PostResult post_recv(std::span<const RecvRequest> requests) noexcept = 0;
  virtual std::size_t send_slots_free() const noexcept = 0;
  virtual bool failed() const noexcept = 0;
  virtual void fail() noexcept = 0;
  virtual mlx5::RawQueuePair raw_queue(mlx5::DoorbellWriter /*writer*/) {
    RUNGS_THROW(kUnsupported,
                "raw_queue: this provider does not give its queues away; the software HCA does");
  }
};

class ProtectionDomain {
 public:
  virtual ~ProtectionDomain() = default;
  DeviceInfo device_info;  // of the device it is from; Device::alloc_pd() fills it in
  virtual std::shared_ptr<MemoryRegion> register_memory(void* data, std::size_t size_bytes,
                                                        Access access) = 0;
  virtual std::shared_ptr<QueuePair> create_rc(const QueuePairOptions& options,
                                               std::shared_ptr<CompletionQueue> send_cq,
                                               std::shared_ptr<CompletionQueue> recv_cq) = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  DeviceInfo info;
  virtual std::shared_ptr<ProtectionDomain> alloc_pd() = 0;
  virtual std::shared_ptr<CompletionQueue> create_cq(unsigned depth) = 0;
  virtual WireCounters counters() const noexcept { return {}; }
};

}  // namespace rungs::verbs::provider

namespace rungs::verbs::soft {
std::shared_ptr<provider::Device> open(const SoftOptions& options);  // src/soft/device.cpp
}

namespace rungs::verbs::ibverbs {  // src/ibverbs/device.cpp, or absent.cpp
std::vector<DeviceInfo> list();    // empty where there is none
std::shared_ptr<provider::Device> open(std::string_view name);  // throws, saying what is missing
}  // namespace rungs::verbs::ibverbs
