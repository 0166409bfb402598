#pragma once
/// @file communicator.hpp
/// Ranks that reduce and exchange tensors on their GPUs.

#include <rungs/bootstrap/group.hpp>
#include <rungs/collectives/kernel_table.hpp>
#include <rungs/core/deadline.hpp>
#include <rungs/core/error.hpp>
#include <rungs/gpu/device.hpp>
#include <rungs/gpu/fault.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace rungs::collectives {

/// How a communicator is made; every rank must say the same.
struct CommunicatorOptions {
  /// Blocks that move data side by side, each with a ring of its own, at most kMaxChannels.
  /// 0: as many as `rings`, else 16 on a GPU and 2 on the emulator.
  int channels = 0;
  /// Rings, one a channel: ring[i] is the rank at place i. Empty: ranks in order.
  std::vector<std::vector<int>> rings;
  /// Of every wait inside a kernel; × RUNGS_TIMEOUT_SCALE. The emulator ends kernels that only wait
  /// after RUNGS_EMULATOR_WATCHDOG_S (45 s), with a report of its own: stay below.
  double timeout_seconds = 30;
  /// Of Simple, a multiple of 16; 0: the table's. A rank holds kSlots of them (and the table's
  /// other protocols') for every peer and channel.
  std::size_t slot_bytes = 0;
};

/// A collective's failure as the communicator keeps it.
struct AsyncError {
  ErrorCode code;  ///< kTimeout, or kPeerLost (also after abort(): this rank is lost to the others)
  std::string text;  ///< peer, step, expected and seen
  std::optional<gpu::Fault> fault;
};

/// One rank's end. Collectives are enqueued on a stream by every rank in the same order; they may
/// be captured into a graph (all ranks capture and replay alike). All memory is allocated and every
/// kernel loaded by the constructor: afterwards ranks may share a GPU, each on streams of its own.
/// Buffers: device memory of this communicator's device, aligned to the element. In place:
/// all_reduce and broadcast send == recv; all_gather send == recv + rank * count; reduce_scatter
/// recv == send + rank * count; all_to_all never. Any other overlap is refused.
/// A call that breaks the contract throws kInvalidArgument, one that no kernel serves kUnsupported
/// with what is supported; after a failure every call throws that failure.
/// @note deterministic: the same bits in every run, and after all_reduce on every rank
/// @note one thread at a time; abort(), async_error() from any
/// @note ranks that share a GPU: until all ranks have enqueued a collective, nothing that may wait
///       for the device inside CUDA (allocation, a copy to pageable memory, the first record of a
///       timed event). With more streams in the process than hardware queues (8) set
///       CUDA_DEVICE_MAX_CONNECTIONS=32 before CUDA starts
class Communicator {
 public:
  /// Collective: maps every peer's memory. @throws Error kInvalidArgument if ranks disagree (naming
  ///         both values); kUnsupported if a peer's memory cannot be reached; kTimeout, kPeerLost
  /// @param group,table must outlive the communicator
  /// @param tuner answers alike on every rank: it is asked the same questions there
  Communicator(bootstrap::Group& group, const gpu::Device& device, KernelTable table,
               std::shared_ptr<const Tuner> tuner, const CommunicatorOptions& options = {});
  /// Waits until this rank's collectives have ended and the peers have taken what it sent them.
  /// While an exception unwinds it aborts first. Graphs that hold collectives: synchronise and
  /// destroy them before.
  ~Communicator();
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;

  [[nodiscard]] int rank() const noexcept;
  [[nodiscard]] int size() const noexcept;
  [[nodiscard]] const gpu::Device& device() const noexcept;
  [[nodiscard]] const Surroundings& surroundings() const noexcept;

  /// recv[i] = op over ranks of send[i]; [count].
  void all_reduce(const void* send, void* recv, std::size_t count, DType dtype, Op op,
                  gpu::StreamHandle stream);
  /// recv[r * count + i] = rank r's send[i]; send [count], recv [size * count].
  void all_gather(const void* send, void* recv, std::size_t count, DType dtype,
                  gpu::StreamHandle stream);
  /// recv[i] = op over ranks of send[rank * count + i]; send [size * count], recv [count].
  void reduce_scatter(const void* send, void* recv, std::size_t count, DType dtype, Op op,
                      gpu::StreamHandle stream);
  /// recv[i] = root's send[i]; [count]. `send` is read at the root only.
  void broadcast(const void* send, void* recv, std::size_t count, DType dtype, int root,
                 gpu::StreamHandle stream);
  /// recv[r * count + i] = rank r's send[rank * count + i]; both [size * count].
  void all_to_all(const void* send, void* recv, std::size_t count, DType dtype,
                  gpu::StreamHandle stream);
  /// What the tuner takes for such a call.
  [[nodiscard]] Choice choice(Collective what, std::size_t count, DType dtype,
                              Op op = Op::kSum) const;
  /// And why, for a log.
  [[nodiscard]] std::string explain(Collective what, std::size_t count, DType dtype,
                                    Op op = Op::kSum) const;

  /// [peer]: slots that this rank has filled for it since the beginning, empty ones included: the
  /// traffic that the cost model counts. Call it after synchronize().
  [[nodiscard]] std::vector<std::uint64_t> slots_sent() const;

  /// Waits for the stream. @throws Error kPeerLost or kTimeout naming peer, collective, step,
  ///         expected and seen; after that only destruction is allowed. What other streams and
  ///         calls
  ///         of synchronize() of this library throw is unchanged: they do not know of collectives
  void synchronize(gpu::StreamHandle stream, const Deadline& deadline = Deadline::standard());
  /// The first failure, without waiting.
  [[nodiscard]] std::optional<AsyncError> async_error() const;
  /// For kernels behind a collective on its stream: a host-mapped word that is not zero if the
  /// collective was cut short, and what it left must not be passed on.
  [[nodiscard]] const std::uint32_t* abort_word() const noexcept;
  /// Ends this rank's kernels and tells the others.
  void abort(const std::string& reason = "abort() was called") noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rungs::collectives
