#pragma once
/// @file device.hpp
/// The verbs objects: device, protection domain, memory region, completion queue, RC queue pair.
/// Two providers stand behind them: the software HCA of this stage and rdma-core.
///
///     verbs::Device device = verbs::Device::open("soft0");
///     verbs::ProtectionDomain pd = device.alloc_pd();
///     verbs::CompletionQueue cq = device.create_cq(256);
///     verbs::QueuePair qp = pd.create_rc({.send_cq = &cq, .recv_cq = &cq, .send_depth = 128});
///     exchange qp.address() with the peer ... qp.connect(remote);
///
/// Objects are handles: a copy names the same object, and each keeps what it was made from alive.
/// Creating and destroying is thread-safe; one queue (send queue, receive queue, completion queue)
/// belongs to one thread at a time, as in libibverbs built without locks.

#include <rungs/core/deadline.hpp>
#include <rungs/verbs/mlx5.hpp>
#include <rungs/verbs/soft.hpp>
#include <rungs/verbs/types.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace rungs::verbs {

namespace provider {  // src/provider.hpp
class Device;
class ProtectionDomain;
class MemoryRegion;
class CompletionQueue;
class QueuePair;
}  // namespace provider

/// A registered range: the HCA may reach it until this object dies.
/// @note destroy it only when no request that uses it is under way
class MemoryRegion {
 public:
  explicit MemoryRegion(std::shared_ptr<provider::MemoryRegion> impl) : impl_(std::move(impl)) {}
  [[nodiscard]] void* data() const noexcept;
  [[nodiscard]] std::size_t size_bytes() const noexcept;
  [[nodiscard]] std::uint32_t lkey() const noexcept;
  [[nodiscard]] std::uint32_t rkey() const noexcept;
  /// What the peer names it by: the region's virtual address.
  [[nodiscard]] std::uint64_t remote_address() const noexcept {
    return reinterpret_cast<std::uintptr_t>(data());
  }
  /// A piece of it as a scatter/gather element. @throws Error kInvalidArgument outside the region
  [[nodiscard]] Segment segment(std::size_t offset_bytes, std::size_t size_bytes) const;

 private:
  std::shared_ptr<provider::MemoryRegion> impl_;
};

/// A ring of completions.
class CompletionQueue {
 public:
  explicit CompletionQueue(std::shared_ptr<provider::CompletionQueue> impl)
      : impl_(std::move(impl)) {}
  /// Takes what is there, at most out.size(), without waiting. Frees the send-queue slots that the
  /// completions cover.
  std::size_t poll(std::span<Completion> out) noexcept;
  /// Spins, then sleeps, until one completion is there.
  /// @throws Error kTimeout after the deadline; kVerbs when the queue overflowed
  Completion wait_one(const Deadline& deadline = Deadline::standard());
  [[nodiscard]] unsigned depth() const noexcept;
  /// Its memory, for code that polls it itself, such as a GPU kernel.
  /// @throws Error kUnsupported unless it is the software HCA's
  [[nodiscard]] mlx5::RawCompletionQueue raw_queue() const;

 private:
  friend class ProtectionDomain;
  std::shared_ptr<provider::CompletionQueue> impl_;
};

/// A reliably connected (RC) pair of queues.
class QueuePair {
 public:
  explicit QueuePair(std::shared_ptr<provider::QueuePair> impl) : impl_(std::move(impl)) {}
  [[nodiscard]] std::uint32_t number() const noexcept;
  [[nodiscard]] QpAddress address() const;
  /// RESET → INIT → RTR → RTS. Receive requests may be posted before. Both ends must be connected
  /// before the first request is posted to either: packets to a pair that is not are dropped, and
  /// the sender gives up after its retries.
  /// @throws Error kInvalidArgument if already connected or the address is no peer of this device
  void connect(const QpAddress& remote);
  /// Queues requests, in order, and rings the doorbell once. What a segment names must stay as it
  /// is until the request's completion (of an unsignalled one: that of a later one).
  /// @note memory that the peer writes may be polled without a completion, with acquire loads of 8
  ///       aligned bytes: a write of at most 256 bytes, or the last 64 of a longer one. Who sees
  ///       such a word sees all of this queue pair's writes before it
  PostResult post_send(std::span<const SendRequest> requests) noexcept;
  PostResult post_recv(std::span<const RecvRequest> requests) noexcept;
  PostResult post_send(const SendRequest& request) noexcept { return post_send({&request, 1}); }
  PostResult post_recv(const RecvRequest& request) noexcept { return post_recv({&request, 1}); }
  /// Slots of the send queue that post_send() may still take (for requests of one WQEBB).
  [[nodiscard]] std::size_t send_slots_free() const noexcept;
  /// Whether the pair went to the error state: what was posted is flushed, further requests are
  /// refused with kWrongState.
  [[nodiscard]] bool failed() const noexcept;
  /// Moves the pair to the error state: pending requests complete as kFlushed.
  void fail() noexcept;
  /// Its memory, for code that writes WQEs itself, such as a GPU kernel.
  /// @throws Error kUnsupported unless it is the software HCA's
  [[nodiscard]] mlx5::RawQueuePair raw_queue(
      mlx5::DoorbellWriter writer = mlx5::DoorbellWriter::kSilent) const;

 private:
  std::shared_ptr<provider::QueuePair> impl_;
};

/// How a queue pair is made.
struct QueuePairOptions {
  CompletionQueue* send_cq = nullptr;
  CompletionQueue* recv_cq = nullptr;
  std::uint32_t send_depth = 128;  ///< requests; rounded up to a power of two
  std::uint32_t recv_depth = 128;
  std::uint32_t max_segments = 4;
  std::uint32_t max_inline_bytes = 64;
  std::uint8_t retry_count = 7;  ///< time-outs in a row before kRetryExceeded
  std::uint8_t rnr_retry_count =
      7;  ///< receiver-not-ready answers before kRnrRetryExceeded; 7: no limit, as in IB
  double ack_timeout_seconds = 0.02;   ///< of one try; × RUNGS_TIMEOUT_SCALE
  double rnr_timer_seconds = 0.00064;  ///< how long this responder asks a sender to wait
};

/// Groups regions and queue pairs that may work together.
class ProtectionDomain {
 public:
  explicit ProtectionDomain(std::shared_ptr<provider::ProtectionDomain> impl)
      : impl_(std::move(impl)) {}
  /// @param data host memory (or GPU memory that the provider can reach), any alignment
  /// @throws Error kInvalidArgument for null or zero bytes; kVerbs if the provider refuses
  MemoryRegion register_memory(void* data, std::size_t size_bytes, Access access);
  /// @throws Error kInvalidArgument for a depth or size beyond DeviceInfo, or a missing queue
  QueuePair create_rc(const QueuePairOptions& options);

 private:
  std::shared_ptr<provider::ProtectionDomain> impl_;
};

/// An HCA.
class Device {
 public:
  explicit Device(std::shared_ptr<provider::Device> impl) : impl_(std::move(impl)) {}
  /// Devices of this machine: "soft0" always, then those of rdma-core where this build has it.
  static std::vector<DeviceInfo> list();
  /// @param name as list() gives it; "soft0" is open_soft({})
  /// @throws Error kInvalidArgument with the nearest match; kVerbs with what is missing
  static Device open(std::string_view name);
  /// A software HCA of its own, with its engine thread.
  /// @throws Error kInvalidArgument for a bad option; kSystem if the wire cannot be set up
  static Device open_soft(const SoftOptions& options);
  [[nodiscard]] const DeviceInfo& info() const noexcept;
  ProtectionDomain alloc_pd();
  /// @param depth completions, rounded up to a power of two
  CompletionQueue create_cq(unsigned depth);
  /// What passed over the software HCA's wire so far; all zero for hardware.
  [[nodiscard]] WireCounters counters() const noexcept;

 private:
  std::shared_ptr<provider::Device> impl_;
};

}  // namespace rungs::verbs
