#pragma once
/// @file context.hpp
/// Ranks that share a symmetric heap: memory of which every rank has a copy at the same offset, so
/// that kernels put, get and signal without their hosts.
///
///     symmetric::Context context(group, device, {.heap_bytes = 64 << 20});      // collective
///     float* x = context.allocate<float>(1024);  // the same calls everywhere
///     std::uint64_t* ready = context.allocate<std::uint64_t>(context.size());
///     launch a kernel that takes context.on_device() and calls put_device.hpp's functions
///     context.synchronize(stream);                       // throws what a kernel's wait reported

#include <rungs/bootstrap/group.hpp>
#include <rungs/core/deadline.hpp>
#include <rungs/core/error.hpp>
#include <rungs/gpu/device.hpp>
#include <rungs/symmetric/context_args.hpp>
#include <rungs/verbs/soft.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace rungs::symmetric {

/// How a context is made; every rank must say the same.
struct ContextOptions {
  std::size_t heap_bytes = std::size_t{64} << 20;
  Network network = Network::kGpuInitiated;
  /// False: peers on this host are reached over the network too (what benches and tests compare).
  bool map_peers = true;
  /// Ranks with different host ids (bootstrap::GroupOptions::host_id) never map each other: they
  /// talk through an HCA. Its wire and fault knobs:
  verbs::SoftOptions hca = {};
  std::uint32_t queue_depth = 256;  ///< work requests of one peer under way
  double timeout_seconds = 30;      ///< of every wait inside a kernel; × RUNGS_TIMEOUT_SCALE
};

/// One rank's end. The heap lies in device memory; with peers over the network, on a real GPU, in
/// pinned host memory, which the software HCA reaches (README.md, "Limits").
/// @note one thread at a time; abort(), async_error() from any
class Context {
 public:
  /// Collective: exchanges addresses, maps the peers, connects the queue pairs.
  /// @param group must outlive the context
  /// @throws Error kInvalidArgument if ranks disagree (naming both values); kUnsupported if a peer
  ///         can be reached by no path; kTimeout, kPeerLost
  Context(bootstrap::Group& group, const gpu::Device& device, const ContextOptions& options = {});
  /// Waits until no peer can still write to this rank's heap, or the deadline has passed. Kernels
  /// that use the context must have ended: see synchronize(). While an exception unwinds it aborts
  /// first, and waits for them itself.
  ~Context();
  Context(Context&&) noexcept;
  Context& operator=(Context&&) noexcept;

  [[nodiscard]] int rank() const noexcept;
  [[nodiscard]] int size() const noexcept;
  [[nodiscard]] const gpu::Device& device() const noexcept;
  [[nodiscard]] bootstrap::Group& group() const noexcept;
  [[nodiscard]] Reach reach(int peer) const;

  /// `count` zeroed elements at the next 256-byte boundary of the heap. Every rank must make the
  /// same allocations in the same order before any kernel uses them; nothing is freed before the
  /// context. Not to be called inside a capture.
  /// @throws Error kInvalidArgument when the heap is full, naming its size and what is taken
  template <class T>
  T* allocate(std::size_t count) {
    return static_cast<T*>(allocate_bytes(count * sizeof(T), alignof(T)));
  }
  /// Collective. Compares what all ranks have allocated so far, and returns when all have: call it
  /// once after the last allocation. @throws Error kInvalidArgument naming the first rank that
  ///         differs and both sizes
  void seal();

  /// For kernels; valid as long as the context.
  [[nodiscard]] const DeviceContext* on_device() const noexcept;

  /// Enqueues a barrier of all ranks' streams: what a rank put before it has arrived when a peer's
  /// stream goes on. Capturable.
  void barrier(gpu::StreamHandle stream);
  /// Waits for the stream. @throws Error kPeerLost or kTimeout naming peer, word, expected and seen
  void synchronize(gpu::StreamHandle stream, const Deadline& deadline = Deadline::standard());
  /// The first failure, without waiting: also the group's loss of a rank.
  [[nodiscard]] std::optional<Error> async_error() const;
  /// Ends this rank's kernels and tells the others.
  void abort(const std::string& reason = "abort() was called") noexcept;
  /// What passed over this rank's HCA; zero without network peers.
  [[nodiscard]] verbs::WireCounters wire() const noexcept;

 private:
  void* allocate_bytes(std::size_t size_bytes, std::size_t alignment);
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rungs::symmetric
