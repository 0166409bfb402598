// The step of an all-reduce between nodes: each rank sends its node's sums to the ranks at its
// place in the other nodes, and adds up what they send.
//
// New against one all-reduce over all ranks: only one part in n of the data leaves a node of n
// ranks, once for every other node, and no rank waits for the network but where sums are due.
// Layout: a message (part, rest) is cut into blocks, a put with a signal for each block and node.
// Cost: 1 network latency; (nodes - 1) S / n bytes sent by a rank.
// Sum: in the order of nodes, on every rank alike: the same bits everywhere, in every run.
//
//     flag             writer                          reader                     resets
//     signal [b][j]    block b of the peer in node j,  block b, by wait_signal    nobody: epochs
//                      behind its bytes
//     epoch (device)   the last block through          every block, at its start  nobody: grows
//     through (dev.)   every block, atomic add         the last one               the last one: 0
//
// Nothing that the host says differs between calls of one length, so a captured launch may be
// replayed: the epoch lies in device memory and counts on.
// Why no window is overwritten too early: epoch e uses the windows of parity e mod 2. A peer that
// puts epoch e + 2 has finished its e + 1, for which it needed this rank's signal e + 1; this rank
// sent that from a later launch of its stream than the one that read the windows of epoch e.
// Why `mine` is not: step 4 waits until the network has read it, and the next call writes it behind
// this launch.

#include "detail/exchange.hpp"

#include <rungs/gpu/kernel.hpp>
#include <rungs/gpu/launch.hpp>
#include <rungs/ptx/atomic.hpp>
#include <rungs/ptx/fence.hpp>
#include <rungs/ptx/memory.hpp>
#include <rungs/ptx/sync.hpp>
#include <rungs/symmetric/put_device.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace rungs::symmetric::detail {
namespace {

// In the emulator a thread that does much costs less than many.
constexpr unsigned kThreads = RUNGS_GPU_CUDA ? 256 : 32;
constexpr std::size_t kBlockElements = 16 << 10;  // fewer are not worth a further message
constexpr std::size_t kUnit = 32;                 // blocks begin at multiples of 128 bytes

struct Range {
  std::size_t begin;
  std::size_t end;
};

RUNGS_DEVICE Range block_range(std::size_t count) {
  const std::size_t each = ((count + gridDim.x - 1) / gridDim.x + kUnit - 1) / kUnit * kUnit;
  const std::size_t begin = each * blockIdx.x < count ? each * blockIdx.x : count;
  return {begin, begin + each < count ? begin + each : count};
}

/// One element of all nodes, in their order.
RUNGS_DEVICE float sum_of(const Exchange& x, const float* windows, std::size_t i) {
  float sum = 0;
  for (int node = 0; node < x.nodes; ++node) {
    const float value =
        node == x.node ? x.mine[i] : windows[static_cast<std::size_t>(node) * x.capacity + i];
    sum = node == 0 ? value : sum + value;
  }
  return sum;
}

RUNGS_KERNEL(kThreads, 1)
exchange_kernel(Exchange x, ExchangeCall call) {
  const std::size_t count = call.part + call.rest;
  if (count == 0) return;
  const DeviceContext& context = *x.context;
  const std::uint64_t epoch = ptx::ld_relaxed_gpu(x.epoch) + 1;
  float* const windows = x.windows + (epoch % 2) * static_cast<std::size_t>(x.nodes) * x.capacity;
  std::uint64_t* const signals = x.signals + blockIdx.x * static_cast<std::size_t>(x.nodes);
  const Range range = block_range(count);

  // 1. My node's sums, if they are any, to everybody at my place; the next node first.
  bool there = x.node_failed == nullptr ||
               ask_thread_0([&] { return ptx::ld_relaxed_sys(x.node_failed) == 0; });
  float* const my_window = windows + static_cast<std::size_t>(x.node) * x.capacity;
  for (int k = 1; k < x.nodes && there; ++k) {
    const int to = x.node + k < x.nodes ? x.node + k : x.node + k - x.nodes;
    put_signal(context, x.peers[to], my_window + range.begin, x.mine + range.begin,
               (range.end - range.begin) * sizeof(float), signals + x.node, epoch);
  }
  // 2. Theirs.
  for (int k = 1; k < x.nodes && there; ++k) {
    const int from = x.node + k < x.nodes ? x.node + k : x.node + k - x.nodes;
    there = wait_signal(context, signals + from, epoch, x.peers[from]);
  }
  // 3. Add up, scale, and put to where it belongs.
  if (there) {
    for (std::size_t i = range.begin + threadIdx.x; i < range.end; i += blockDim.x) {
      float* const to = i < call.part ? call.to_part + i : call.to_rest + (i - call.part);
      *to = call.scale * sum_of(x, windows, i);
    }
  }
  // 4. `mine` may be written again when the network has read it.
  for (int node = 0; node < x.nodes && there; ++node) {
    if (node != x.node) there = quiet(context, x.peers[node]);
  }
  // 5. The last block through ends the epoch.
  ptx::syncthreads();
  if (threadIdx.x != 0) return;
  ptx::fence_acq_rel_gpu();
  if (ptx::atomic_add_gpu(x.through, 1u) + 1 != gridDim.x) return;
  ptx::st_relaxed_gpu(x.through, 0u);
  ptx::st_relaxed_gpu(x.epoch, epoch);
}

RUNGS_KERNEL(kThreads)
scale_kernel(float* data, std::size_t count, float factor) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride)
    data[i] *= factor;
}

}  // namespace

void exchange(const Exchange& exchange, const ExchangeCall& call, gpu::StreamHandle stream) {
  const std::size_t wanted = (call.part + call.rest + kBlockElements - 1) / kBlockElements;
  const auto blocks = static_cast<unsigned>(
      std::clamp<std::size_t>(wanted, 1, static_cast<std::size_t>(kExchangeBlocks)));
  gpu::launch("all_reduce exchange between nodes", {.grid = {blocks}, .block = {kThreads}}, stream,
              exchange_kernel, exchange, call);
}

void scale(float* data, std::size_t count, float factor, gpu::StreamHandle stream) {
  constexpr unsigned kMostBlocks = RUNGS_GPU_CUDA ? 256 : 4;
  const std::size_t wanted = (count + 8 * kThreads - 1) / (8 * kThreads);
  const auto blocks = static_cast<unsigned>(std::clamp<std::size_t>(wanted, 1, kMostBlocks));
  gpu::launch("all_reduce scale", {.grid = {blocks}, .block = {kThreads}}, stream, scale_kernel,
              data, count, factor);
}

}  // namespace rungs::symmetric::detail
