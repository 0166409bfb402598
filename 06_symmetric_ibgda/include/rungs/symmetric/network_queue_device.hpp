#pragma once
/// @file network_queue_device.hpp
/// Work requests posted by the kernel itself (IBGDA). For kernel sources; the functions that
/// kernels call are in network_device.hpp.
///
///     1  reserve    which request is mine: an atomic add; wait until the ring has room
///     2  write      the WQE, 16 bytes at a time
///     3  publish    in order: when all before me are published
///     4  ring       whoever finds nobody ringing rings, also for those who publish meanwhile:
///                   records, then doorbell
///     5  complete   the CQE of my request, if nobody has seen it or a later one yet
///
/// New against the proxy: no thread of the CPU stands between the kernel and the HCA.
/// Source: the order of steps follows NVSHMEM's and NCCL's IBGDA; the combining doorbell, which
/// needs neither lock nor batch size, is ours.

#include <rungs/ptx/fence.hpp>
#include <rungs/ptx/vector.hpp>
#include <rungs/symmetric/network_args.hpp>
#include <rungs/symmetric/network_wait_device.hpp>

#include <cstdint>

namespace rungs::symmetric::detail {

namespace mlx5 = verbs::mlx5;

/// Segments of a WQE, as 16-byte stores.
RUNGS_DEVICE ptx::U32x4 ctrl_segment(const NetworkQueue& queue, std::uint64_t request,
                                     mlx5::WqeOpcode opcode, std::uint32_t segments) {
  const auto index = static_cast<std::uint32_t>(request & 0xffff);
  return {mlx5::be32(index << 8 | opcode), mlx5::be32(queue.qp_number << 8 | segments),
          mlx5::be32(mlx5::kCqUpdate), 0};
}
RUNGS_DEVICE ptx::U32x4 remote_segment(const NetworkQueue& queue, std::uint64_t offset) {
  const std::uint64_t address = queue.remote_heap + offset;
  return {mlx5::be32(static_cast<std::uint32_t>(address >> 32)),
          mlx5::be32(static_cast<std::uint32_t>(address)), mlx5::be32(queue.remote_key), 0};
}
RUNGS_DEVICE ptx::U32x4 data_segment(std::uint64_t address, std::uint32_t bytes,
                                     std::uint32_t key) {
  return {mlx5::be32(bytes), mlx5::be32(key), mlx5::be32(static_cast<std::uint32_t>(address >> 32)),
          mlx5::be32(static_cast<std::uint32_t>(address))};
}
/// The 8 bytes themselves, in the order in which they shall lie in the peer's memory.
RUNGS_DEVICE ptx::U32x4 inline_segment(std::uint64_t value) {
  return {mlx5::be32(8 | mlx5::kInlineFlag), static_cast<std::uint32_t>(value),
          static_cast<std::uint32_t>(value >> 32), 0};
}
RUNGS_DEVICE ptx::U32x4 add_segment(std::uint64_t value) {
  return {mlx5::be32(static_cast<std::uint32_t>(value >> 32)),
          mlx5::be32(static_cast<std::uint32_t>(value)), 0, 0};
}
RUNGS_DEVICE ptx::U32x4* wqe(const NetworkQueue& queue, std::uint64_t request) {
  return static_cast<ptx::U32x4*>(queue.send_ring) +
         (request & (queue.ring_wqebbs - 1)) * (mlx5::kWqebbBytes / sizeof(ptx::U32x4));
}

/// Step 2: a write or read of heap memory.
RUNGS_DEVICE void write_transfer(NetworkQueue& queue, std::uint64_t request, mlx5::WqeOpcode opcode,
                                 std::uint64_t remote_offset, std::uint64_t local_offset,
                                 std::uint64_t bytes) {
  ptx::U32x4* const to = wqe(queue, request);
  ptx::st_volatile_v4(to, ctrl_segment(queue, request, opcode, 3));
  ptx::st_volatile_v4(to + 1, remote_segment(queue, remote_offset));
  ptx::st_volatile_v4(to + 2, data_segment(queue.local_heap + local_offset,
                                           static_cast<std::uint32_t>(bytes), queue.local_key));
}
/// Step 2: a signal, as a write whose 8 bytes lie in the WQE, or as a fetch-add whose result nobody
/// wants.
RUNGS_DEVICE void write_signal(NetworkQueue& queue, std::uint64_t request, std::uint64_t offset,
                               std::uint64_t value, bool add) {
  ptx::U32x4* const to = wqe(queue, request);
  ptx::st_volatile_v4(
      to,
      ctrl_segment(queue, request, add ? mlx5::kAtomicFetchAdd : mlx5::kRdmaWrite, add ? 4 : 3));
  ptx::st_volatile_v4(to + 1, remote_segment(queue, offset));
  if (!add) {
    ptx::st_volatile_v4(to + 2, inline_segment(value));
    return;
  }
  ptx::st_volatile_v4(to + 2, add_segment(value));
  ptx::st_volatile_v4(to + 3, data_segment(queue.scratch, 8, queue.scratch_key));
}

/// Step 5: waits until `request` is completed. Its CQE's slot is written anew only when `completed`
/// is past the request, so one of the two is always seen. The owner bit tells odd laps from even
/// ones only: a thread may wait for a request so far ahead (many wait for room at once) that the
/// CQE of two laps ago still lies there, hence the counter.
RUNGS_DEVICE bool wait_for_request(const DeviceContext& context, NetworkQueue& queue, int peer,
                                   std::uint64_t request, Awaited awaited) {
  const std::uint32_t slot = static_cast<std::uint32_t>(request) & (queue.completion_entries - 1);
  const bool lap = (request & queue.completion_entries) != 0;
  const std::uint32_t* const end_word = mlx5::end_word(queue.completions + slot);
  NetworkWait wait(context, peer, awaited, request);
  for (;;) {
    const std::uint64_t completed = ptx::peek_relaxed_gpu(&queue.completed);
    if (completed > request) {
      ptx::fence_acq_rel_gpu();  // with the fence before the count was raised, below
      return true;
    }
    const mlx5::CqeEnd end = mlx5::cqe_end(ptx::ld_acquire_sys(end_word));
    if (end.opcode != mlx5::kCqeInvalid && (end.owner != 0) == lap &&
        end.wqe_counter == static_cast<std::uint16_t>(request)) {
      if (end.opcode != mlx5::kCqeRequest) {
        wait.record(request + 1, completed);
        return false;
      }
      break;
    }
    if (wait.give_up(request + 1, completed)) return false;
  }
  // What this thread acquired is released with the count: the HCA is done with the WQE, what was
  // read is here.
  ptx::fence_acq_rel_gpu();
  std::uint64_t seen = ptx::peek_relaxed_gpu(&queue.completed);
  while (seen <= request) {
    const std::uint64_t before = ptx::atomic_cas_gpu(&queue.completed, seen, request + 1);
    if (before == seen) break;
    seen = before;
  }
  return true;
}

/// Step 1: `count` requests in a row, at most queue.room.
RUNGS_DEVICE bool reserve(const DeviceContext& context, NetworkQueue& queue, int peer,
                          std::uint32_t count, std::uint64_t& first) {
  first = ptx::atomic_add_gpu(&queue.reserved, count);
  const std::uint64_t last = first + count - 1;
  if (last < queue.room) return true;
  return wait_for_request(context, queue, peer, last - queue.room, Awaited::kQueueSlot);
}

/// Step 4, by the one thread that rings now.
RUNGS_DEVICE void ring(NetworkQueue& queue) {
  const std::uint64_t published = ptx::ld_acquire_gpu(&queue.published);
  // Who published has seen room: `completed` is less than `room` behind, and the HCA, which looks
  // at this record before it writes a CQE, finds its ring of twice as many never full.
  const auto completed = static_cast<std::uint32_t>(ptx::peek_relaxed_gpu(&queue.completed));
  ptx::st_relaxed_sys(queue.completion_record, mlx5::be32(completed & 0xffffff));
  const auto count = static_cast<std::uint32_t>(published & 0xffff);
  ptx::st_release_sys(queue.send_record, mlx5::be32(count));
  const std::uint64_t low = mlx5::be32(count << 8);
  const std::uint64_t high = mlx5::be32(queue.qp_number << 8);
  ptx::st_release_sys(queue.doorbell, high << 32 | low);
#if !RUNGS_GPU_CUDA
  queue.wake(queue.wake_context);
#endif
}

/// Steps 3 and 4.
RUNGS_DEVICE bool publish(const DeviceContext& context, NetworkQueue& queue, int peer,
                          std::uint64_t first, std::uint32_t count) {
  // System scope: WQE and payload may lie in host memory, and who reads them is no thread of this
  // GPU.
  ptx::fence_acq_rel_sys();
  NetworkWait wait(context, peer, Awaited::kQueueSlot, first);
  for (;;) {
    const std::uint64_t published = ptx::ld_acquire_gpu(&queue.published);
    if (published == first) break;
    if (wait.give_up(first, published)) return false;
  }
  ptx::st_release_gpu(&queue.published, first + count);
  ptx::fence_acq_rel_gpu();
  // Whoever adds to a count above 0 leaves: the ringer finds the count changed and rings again.
  if (ptx::atomic_add_gpu(&queue.ringing, 1) != 0) return true;
  std::uint32_t calls = 1;
  for (;;) {
    ptx::fence_acq_rel_gpu();
    ring(queue);
    const std::uint32_t before = ptx::atomic_cas_gpu(&queue.ringing, calls, 0u);
    if (before == calls) return true;
    calls = before;
  }
}

/// Posts a transfer of any length, in pieces that one message may have; `last`: its last request.
RUNGS_DEVICE bool queue_transfer(const DeviceContext& context, NetworkQueue& queue, int peer,
                                 mlx5::WqeOpcode opcode, std::uint64_t remote_offset,
                                 std::uint64_t local_offset, std::uint64_t bytes,
                                 std::uint64_t& last) {
  while (bytes > 0) {
    const std::uint64_t piece = bytes < queue.max_message_bytes ? bytes : queue.max_message_bytes;
    if (!reserve(context, queue, peer, 1, last)) return false;
    write_transfer(queue, last, opcode, remote_offset, local_offset, piece);
    if (!publish(context, queue, peer, last, 1)) return false;
    remote_offset += piece;
    local_offset += piece;
    bytes -= piece;
  }
  return true;
}

RUNGS_DEVICE bool queue_put(const DeviceContext& context, int peer, std::uint64_t remote_offset,
                            std::uint64_t local_offset, std::uint64_t bytes) {
  std::uint64_t last = 0;
  return queue_transfer(context, context.queues[peer], peer, mlx5::kRdmaWrite, remote_offset,
                        local_offset, bytes, last);
}

RUNGS_DEVICE bool queue_signal(const DeviceContext& context, int peer, std::uint64_t offset,
                               std::uint64_t value, bool add) {
  NetworkQueue& queue = context.queues[peer];
  std::uint64_t request = 0;
  if (!reserve(context, queue, peer, 1, request)) return false;
  write_signal(queue, request, offset, value, add);
  return publish(context, queue, peer, request, 1);
}

/// The last piece and the signal share reservation, publication and doorbell.
RUNGS_DEVICE bool queue_put_signal(const DeviceContext& context, int peer,
                                   std::uint64_t remote_offset, std::uint64_t local_offset,
                                   std::uint64_t bytes, std::uint64_t signal_offset,
                                   std::uint64_t value) {
  if (bytes == 0) return queue_signal(context, peer, signal_offset, value, false);
  NetworkQueue& queue = context.queues[peer];
  const std::uint64_t before = (bytes - 1) / queue.max_message_bytes * queue.max_message_bytes;
  std::uint64_t first = 0;
  if (!queue_transfer(context, queue, peer, mlx5::kRdmaWrite, remote_offset, local_offset, before,
                      first)) {
    return false;
  }
  if (!reserve(context, queue, peer, 2, first)) return false;
  write_transfer(queue, first, mlx5::kRdmaWrite, remote_offset + before, local_offset + before,
                 bytes - before);
  write_signal(queue, first + 1, signal_offset, value, false);
  return publish(context, queue, peer, first, 2);
}

RUNGS_DEVICE bool queue_get(const DeviceContext& context, int peer, std::uint64_t local_offset,
                            std::uint64_t remote_offset, std::uint64_t bytes) {
  NetworkQueue& queue = context.queues[peer];
  std::uint64_t last = 0;
  if (!queue_transfer(context, queue, peer, mlx5::kRdmaRead, remote_offset, local_offset, bytes,
                      last) ||
      !wait_for_request(context, queue, peer, last, Awaited::kCompletion)) {
    return false;
  }
  // The bytes came from outside the GPU; another thread may have been the one to see the CQE.
  ptx::fence_acq_rel_sys();
  return true;
}

RUNGS_DEVICE bool queue_quiet(const DeviceContext& context, int peer) {
  NetworkQueue& queue = context.queues[peer];
  const std::uint64_t reserved = ptx::peek_relaxed_gpu(&queue.reserved);
  if (reserved == 0) return true;
  return wait_for_request(context, queue, peer, reserved - 1, Awaited::kCompletion);
}

}  // namespace rungs::symmetric::detail
