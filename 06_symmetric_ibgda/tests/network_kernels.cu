// Kernels for the tests of the network half: scripts of calls, floods of signals, exchanges of
// messages whose payload is checked as soon as the signal is there.

#include "network_kernels.hpp"

#include <rungs/gpu/kernel.hpp>
#include <rungs/gpu/launch.hpp>
#include <rungs/ptx/atomic.hpp>
#include <rungs/ptx/memory.hpp>
#include <rungs/ptx/sync.hpp>
#include <rungs/symmetric/network_device.hpp>

namespace rungs::symmetric {
namespace {

constexpr int kExchangeThreads = 32;

RUNGS_DEVICE bool make_step(const DeviceContext& context, const NetworkStep& step) {
  switch (step.kind) {
    case NetworkStep::Kind::kPut:
      return network_put(context, step.peer, step.remote_offset, step.local_offset, step.bytes);
    case NetworkStep::Kind::kPutSignal:
      return network_put_signal(context, step.peer, step.remote_offset, step.local_offset,
                                step.bytes, step.signal_offset, step.value);
    case NetworkStep::Kind::kSet:
      return network_signal(context, step.peer, step.signal_offset, step.value, false);
    case NetworkStep::Kind::kAdd:
      return network_signal(context, step.peer, step.signal_offset, step.value, true);
    case NetworkStep::Kind::kGet:
      return network_get(context, step.peer, step.local_offset, step.remote_offset, step.bytes);
    case NetworkStep::Kind::kQuiet:
      return network_quiet(context, step.peer);
  }
  return false;
}

RUNGS_KERNEL(32)
steps_kernel(const DeviceContext* context, const NetworkStep* steps, int count,
             std::uint32_t* failures) {
  for (int i = 0; i < count; ++i) {
    if (steps[i].block != static_cast<int>(blockIdx.x)) continue;
    if (!make_step(*context, steps[i])) ptx::atomic_add_gpu(failures, 1);
  }
}

RUNGS_KERNEL(128)
flood_kernel(const DeviceContext* context, Flood flood, std::uint32_t* failures) {
  const std::uint64_t thread = blockIdx.x * blockDim.x + threadIdx.x;
  bool good = true;
  for (int i = 1; i <= flood.count && good; ++i) {
    good = i % 8 == 0 ? network_signal(*context, flood.peer,
                                       flood.set_offset + thread * sizeof(std::uint64_t),
                                       static_cast<std::uint64_t>(i), false)
                      : network_signal(*context, flood.peer, flood.add_offset, 1, true);
  }
  good = good && network_quiet(*context, flood.peer);
  if (!good) ptx::atomic_add_gpu(failures, 1);
}

RUNGS_DEVICE std::uint64_t pattern(int rank, int block, int round, int word) {
  return (static_cast<std::uint64_t>(rank) << 48) + (static_cast<std::uint64_t>(block) << 40) +
         static_cast<std::uint64_t>(round) * 0x10001 + static_cast<std::uint64_t>(word) * 3 + 1;
}

// Thread 0 of a block waits, then all go on.
RUNGS_DEVICE bool wait_for_word(const DeviceContext& context, int peer, std::uint64_t offset,
                                std::uint64_t value, bool* shared_good) {
  if (threadIdx.x == 0) {
    const auto* word = reinterpret_cast<const std::uint64_t*>(context.heap[context.rank] + offset);
    detail::NetworkWait wait(context, peer, Awaited::kSignal, offset / 8);
    *shared_good = true;
    for (;;) {
      const std::uint64_t seen = ptx::ld_acquire_sys(word);
      if (seen >= value) break;
      if (wait.give_up(value, seen)) {
        *shared_good = false;
        break;
      }
    }
  }
  ptx::syncthreads();
  const bool good = *shared_good;
  ptx::syncthreads();
  return good;
}

RUNGS_KERNEL(kExchangeThreads)
exchange_kernel(const DeviceContext* context, Exchange exchange, std::uint32_t* wrong,
                std::uint32_t* failures) {
  RUNGS_SHARED(bool, good);
  const DeviceContext& c = *context;
  const int block = static_cast<int>(blockIdx.x);
  const int thread = static_cast<int>(threadIdx.x);
  const std::uint64_t area =
      static_cast<std::uint64_t>(exchange.blocks) * 2 * exchange.slot_bytes();
  const std::uint64_t arrived =
      exchange.offset + 2 * area + static_cast<std::uint64_t>(block) * sizeof(std::uint64_t);
  const std::uint64_t taken =
      arrived + static_cast<std::uint64_t>(exchange.blocks) * sizeof(std::uint64_t);
  std::uint32_t mismatches = 0;
  bool sent = true;
  for (int round = 1; round <= exchange.rounds; ++round) {
    const std::uint64_t slot =
        static_cast<std::uint64_t>(2 * block + round % 2) * exchange.slot_bytes();
    const std::uint64_t send = exchange.offset + slot;
    const std::uint64_t recv = send + area;
    // 1. The peer has taken what lay in its slot, so what lies in ours has been sent.
    if (round > 2 &&
        !wait_for_word(c, exchange.peer, taken, static_cast<std::uint64_t>(round - 2), &good)) {
      break;
    }
    // 2. Fill and send.
    auto* mine = reinterpret_cast<std::uint64_t*>(c.heap[c.rank] + send);
    for (int i = thread; i < exchange.words; i += kExchangeThreads)
      mine[i] = pattern(c.rank, block, round, i);
    ptx::syncthreads();
    if (thread == 0) {
      sent &= network_put_signal(c, exchange.peer, recv, send, exchange.slot_bytes(), arrived,
                                 static_cast<std::uint64_t>(round));
    }
    // 3. What the peer sent in this round.
    if (!wait_for_word(c, exchange.peer, arrived, static_cast<std::uint64_t>(round), &good)) break;
    const auto* theirs = reinterpret_cast<const std::uint64_t*>(c.heap[c.rank] + recv);
    for (int i = thread; i < exchange.words; i += kExchangeThreads)
      mismatches += theirs[i] != pattern(exchange.peer, block, round, i);
    ptx::syncthreads();
    if (thread == 0) {
      sent &= network_signal(c, exchange.peer, taken, static_cast<std::uint64_t>(round), false);
    }
  }
  if (mismatches > 0) ptx::atomic_add_gpu(wrong, mismatches);
  if (thread == 0 && !(good && sent && network_quiet(c, exchange.peer))) {
    ptx::atomic_add_gpu(failures, 1);
  }
}

}  // namespace

void launch_steps(const DeviceContext* context, const NetworkStep* steps, int count, int blocks,
                  std::uint32_t* failures, gpu::StreamHandle stream) {
  gpu::launch("network_steps", {.grid = {static_cast<unsigned>(blocks), 1, 1}, .block = {1, 1, 1}},
              stream, steps_kernel, context, steps, count, failures);
}

void launch_flood(const DeviceContext* context, const Flood& flood, std::uint32_t* failures,
                  gpu::StreamHandle stream) {
  gpu::launch("network_flood",
              {.grid = {static_cast<unsigned>(flood.blocks), 1, 1},
               .block = {static_cast<unsigned>(flood.threads), 1, 1}},
              stream, flood_kernel, context, flood, failures);
}

void launch_exchange(const DeviceContext* context, const Exchange& exchange, std::uint32_t* wrong,
                     std::uint32_t* failures, gpu::StreamHandle stream) {
  gpu::launch("network_exchange",
              {.grid = {static_cast<unsigned>(exchange.blocks), 1, 1},
               .block = {kExchangeThreads, 1, 1},
               .cooperative = true},
              stream, exchange_kernel, context, exchange, wrong, failures);
}

}  // namespace rungs::symmetric
