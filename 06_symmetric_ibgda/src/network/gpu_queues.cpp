#include "network/gpu_queues.hpp"

#include <rungs/core/error.hpp>
#include <rungs/gpu/stream.hpp>

#include <atomic>

namespace rungs::symmetric::detail {
namespace {

namespace mlx5 = verbs::mlx5;

mlx5::CqeEnd end_of(const mlx5::Cqe64& cqe) {
  auto* const word = const_cast<std::uint32_t*>(mlx5::end_word(&cqe));
  return mlx5::cqe_end(std::atomic_ref(*word).load(std::memory_order_acquire));
}

// The completion of the request that failed; those behind it are only flushed. Null: there is none
// (yet).
const mlx5::Cqe64* first_error(const mlx5::RawCompletionQueue& completions) {
  for (std::uint32_t i = 0; i < completions.entry_count; ++i) {
    const mlx5::Cqe64& cqe = completions.entries[i];
    if (end_of(cqe).opcode == mlx5::kCqeRequestError && cqe.syndrome != mlx5::kFlushError)
      return &cqe;
  }
  return nullptr;
}

}  // namespace

GpuQueues::GpuQueues(const gpu::Device& device, int size, std::vector<Connection>& connections,
                     const LocalMemory& local, std::uint32_t room, std::uint64_t max_message_bytes)
    : device_(device),
      queues_(device, static_cast<std::size_t>(size)),
      snapshot_(device, static_cast<std::size_t>(size), gpu::Space::kHostMapped) {
  const auto writer =
      device.info().emulated ? mlx5::DoorbellWriter::kWakes : mlx5::DoorbellWriter::kSilent;
  std::vector<NetworkQueue> queues(static_cast<std::size_t>(size));
  for (Connection& connection : connections) {
    Raw& raw = raw_.emplace_back();
    raw.connection = &connection;
    raw.pair = connection.pair.raw_queue(writer);
    raw.completions = connection.completions.raw_queue();
    raw.pair_memory = gpu::HostRegistration(device, raw.pair.memory, raw.pair.memory_bytes);
    raw.completion_memory =
        gpu::HostRegistration(device, raw.completions.memory, raw.completions.memory_bytes);
    RUNGS_ASSERT(raw.completions.entry_count >= 2 * room && raw.pair.send_wqebbs >= room,
                 "the rings are too small for ", room, " requests");

    NetworkQueue& queue = queues[static_cast<std::size_t>(connection.peer)];
    queue = {};
    queue.send_ring = raw.pair_memory.on_device(static_cast<std::byte*>(raw.pair.send_queue));
    queue.completions = raw.completion_memory.on_device(raw.completions.entries);
    queue.send_record = raw.pair_memory.on_device(raw.pair.doorbell_record + mlx5::kSendRecord);
    queue.completion_record =
        raw.completion_memory.on_device(raw.completions.doorbell_record + mlx5::kCqConsumerRecord);
    queue.doorbell = raw.pair_memory.on_device(raw.pair.doorbell);
    queue.wake = raw.pair.wake;
    queue.wake_context = raw.pair.wake_context;
    queue.ring_wqebbs = raw.pair.send_wqebbs;
    queue.completion_entries = raw.completions.entry_count;
    queue.room = room;
    queue.qp_number = raw.pair.qp_number;
    queue.local_key = local.heap.lkey();
    queue.remote_key = connection.remote_key;
    queue.scratch_key = local.scratch.lkey();
    queue.local_heap = local.heap.remote_address();
    queue.remote_heap = connection.remote_heap;
    queue.scratch = local.scratch.remote_address();
    queue.max_message_bytes = max_message_bytes;
  }
  const gpu::Stream stream(device);
  queues_.upload(queues, stream);
}

std::optional<NetworkFailure> GpuQueues::failure() const {
  for (const Raw& raw : raw_) {
    if (!raw.connection->pair.failed()) continue;
    const mlx5::Cqe64* const cause = first_error(raw.completions);
    if (cause == nullptr) continue;
    const auto opcode = static_cast<std::uint8_t>(mlx5::be32(cause->sop_drop_qpn) >> 24);
    return NetworkFailure{
        raw.connection->peer,
        describe_failure(*raw.connection, verbs::opcode_of_wqe(opcode), end_of(*cause).wqe_counter,
                         verbs::status_of_syndrome(cause->syndrome)) +
            concat(" (syndrome 0x", std::hex, int{cause->syndrome}, ")")};
  }
  return std::nullopt;
}

bool GpuQueues::drain(const Deadline& deadline, const std::function<bool()>& over) {
  const gpu::Stream stream(device_);
  gpu::copy_async(snapshot_.data(), queues_.data(), queues_.size_bytes(), stream);
  gpu::synchronize(stream, deadline);
  Backoff backoff;
  for (const Raw& raw : raw_) {
    const NetworkQueue& queue = snapshot_.data()[raw.connection->peer];
    if (queue.reserved == queue.completed) continue;
    const std::uint64_t last = queue.reserved - 1;
    const mlx5::Cqe64& cqe = raw.completions.entries[last & (raw.completions.entry_count - 1)];
    const std::uint8_t lap = (last & raw.completions.entry_count) != 0;
    for (;;) {
      const mlx5::CqeEnd end = end_of(cqe);
      if (end.opcode == mlx5::kCqeRequest && end.owner == lap &&
          end.wqe_counter == static_cast<std::uint16_t>(last)) {
        break;
      }
      if (over() || deadline.passed() || raw.connection->pair.failed()) return false;
      backoff.pause();
    }
  }
  return true;
}

}  // namespace rungs::symmetric::detail
