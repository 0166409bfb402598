// The counted exchange: exactly the rows that exist, into the symmetric heap of the expert's rank.
//
// What:   ranks tell each other how many rows go to each expert, each computes by itself where its
//         rows lie in every window, and puts them there: one contiguous block a (rank, expert).
// New:    against the padded exchange: no padding on the wire, nothing dropped, no collective in
//         the way; the counts stay on the device, so that no launch depends on the host and a
//         captured step follows the routing of each replay.
// Layout: windows of the expert's rank [L, expert_rows, width]: within an expert by rank, within a
//         rank by token. Windows of the token's rank [E, source_rows, width]: by slot.
// Cost:   out 2·n·width bytes, back 4·n·width (fp32), n = rows in use, at most tokens·top_k; two
//         dependent messages forward beside the announcement, two back.
// Source: deepseek-ai/DeepEP (notify, dispatch, combine); its elastic buffers: fixed windows, no
//         queues.
//
//     flag                       writer                  reader               resets
//     announced[r]               rank r, announce        this rank, announce  nobody: epochs grow
//     out_ready[trip][e, r]      rank r, out             this rank, arrive    nobody
//     back_ready[trip][e]        e's rank, back          this rank, returned  nobody
//     epoch                      announce                all kernels          nobody
//
// Why no window needs a guard of its own: a rank announces epoch n + 1 when it has done with epoch
// n, VJP included; who puts rows into its windows has seen that announcement. The announcements
// themselves have two places, by the epoch's parity: a rank that announces n + 2 has seen everybody
// announce n + 1, and they do that after they have read n. The same holds for what is sent from:
// `sent` is overwritten when the rows before have been answered, `answers` when their receiver has
// gone on to send gradients or to announce.

#include <rungs/gpu/buffer.hpp>
#include <rungs/gpu/kernel.hpp>
#include <rungs/gpu/stream.hpp>
#include <rungs/ptx/sync.hpp>
#include <rungs/symmetric/context.hpp>
#include <rungs/symmetric/put_device.hpp>

#include <algorithm>
#include <array>

#include "row_exchange.hpp"
#include "tally_device.hpp"

namespace rungs::moe {
namespace {

// A put is one block's work. Ranks may share a GPU, and these kernels wait for each other.
constexpr int kBlocks = 8;
constexpr int kThreads = RUNGS_GPU_CUDA ? 256 : 32;
constexpr int kTrips = 2;

struct CountedArgs {
  const symmetric::DeviceContext* context;
  int ranks;
  int rank;
  int experts;
  int local_experts;
  int source_rows;
  int expert_rows;
  int width;
  const Tally* tally;        // this rank's
  Tally* tallies;            // heap, [2, ranks]
  std::uint64_t* announced;  // heap, [ranks]
  std::uint64_t* epoch;      // [1] forward passes so far
  std::int32_t* counts;      // [ranks, experts] rows
  std::int32_t* starts;      // [ranks, experts] first row in the expert's window
  std::int32_t* arriving;    // [local_experts]
};

struct Trip {
  Journey memory;             // all in the heap
  std::uint64_t* out_ready;   // heap, [local_experts, ranks]
  std::uint64_t* back_ready;  // heap, [experts]
};

// Blocks of rows as they lie in the windows.
RUNGS_DEVICE std::int64_t at_tokens(const CountedArgs& a, int e) {
  return static_cast<std::int64_t>(e) * a.source_rows * a.width;
}
RUNGS_DEVICE std::int64_t at_expert(const CountedArgs& a, int local, int row) {
  return (static_cast<std::int64_t>(local) * a.expert_rows + row) * a.width;
}

RUNGS_KERNEL(kThreads) announce_kernel(CountedArgs a, Routing r) {
  const symmetric::DeviceContext& c = *a.context;
  // 1. This pass's number.
  const std::uint64_t epoch = *a.epoch + 1;
  ptx::syncthreads();
  if (threadIdx.x == 0) *a.epoch = epoch;
  // 2. This rank's tally to everybody, itself first: the others' copies are sent from that one,
  //    which stays until it is known that they have arrived.
  Tally* const tallies = a.tallies + (epoch & 1) * a.ranks;
  const Tally* from = a.tally;
  for (int i = 0; i < a.ranks; ++i) {
    const int peer = (a.rank + i) % a.ranks;
    symmetric::put_signal(c, peer, tallies + a.rank, from, sizeof(Tally), a.announced + a.rank,
                          epoch);
    from = tallies + a.rank;
  }
  // 3. Everybody's.
  for (int peer = 0; peer < a.ranks; ++peer) {
    if (!symmetric::wait_signal(c, a.announced + peer, epoch, peer)) return;
  }
  // 4. An expert a thread: where each rank's rows begin, and how many they are.
  for (int e = static_cast<int>(threadIdx.x); e < a.experts; e += static_cast<int>(blockDim.x)) {
    std::int32_t rows = 0;
    for (int rank = 0; rank < a.ranks; ++rank) {
      const std::int32_t count = tallies[rank].chosen[e];
      a.counts[rank * a.experts + e] = count;
      a.starts[rank * a.experts + e] = rows;
      rows += count;
    }
    if (e / a.local_experts == a.rank) a.arriving[e % a.local_experts] = rows;
    add_tallies_of_expert(tallies, a.ranks, e, r);
  }
}

RUNGS_KERNEL(kThreads) out_kernel(CountedArgs a, Trip trip) {
  const std::uint64_t epoch = *a.epoch;
  for (int i = static_cast<int>(blockIdx.x); i < a.experts; i += static_cast<int>(gridDim.x)) {
    // Each rank begins with its own experts, so that not all put to the same one.
    const int e = (i + a.rank * a.local_experts) % a.experts;
    const int count = a.counts[a.rank * a.experts + e];
    if (count == 0) continue;  // the expert's rank knows that nothing comes
    const int local = e % a.local_experts;
    symmetric::put_signal(
        *a.context, e / a.local_experts,
        trip.memory.arrived + at_expert(a, local, a.starts[a.rank * a.experts + e]),
        trip.memory.sent + at_tokens(a, e),
        static_cast<std::uint64_t>(count) * static_cast<unsigned>(a.width) * sizeof(bf16),
        trip.out_ready + local * a.ranks + a.rank, epoch);
  }
}

// Waits for the rows of each expert and clears those between them and the end of the tile.
RUNGS_KERNEL(kThreads) arrive_kernel(CountedArgs a, Trip trip) {
  const std::uint64_t epoch = *a.epoch;
  for (int local = static_cast<int>(blockIdx.x); local < a.local_experts;
       local += static_cast<int>(gridDim.x)) {
    const int e = a.rank * a.local_experts + local;
    const int rows = a.arriving[local];
    bf16* const end = trip.memory.arrived + at_expert(a, local, rows);
    const int tail = ((rows + kPadRows - 1) / kPadRows * kPadRows - rows) * a.width;
    for (int i = static_cast<int>(threadIdx.x); i < tail; i += static_cast<int>(blockDim.x))
      end[i] = bf16{0};
    for (int rank = 0; rank < a.ranks; ++rank) {
      if (a.counts[rank * a.experts + e] == 0) continue;
      if (!symmetric::wait_signal(*a.context, trip.out_ready + local * a.ranks + rank, epoch, rank))
        return;
    }
  }
}

RUNGS_KERNEL(kThreads) back_kernel(CountedArgs a, Trip trip) {
  const std::uint64_t epoch = *a.epoch;
  const int blocks = a.ranks * a.local_experts;
  for (int i = static_cast<int>(blockIdx.x); i < blocks; i += static_cast<int>(gridDim.x)) {
    const int peer = (i / a.local_experts + a.rank) % a.ranks;
    const int local = i % a.local_experts;
    const int e = a.rank * a.local_experts + local;
    const int count = a.counts[peer * a.experts + e];
    if (count == 0) continue;
    symmetric::put_signal(
        *a.context, peer, trip.memory.returned + at_tokens(a, e),
        trip.memory.answers + at_expert(a, local, a.starts[peer * a.experts + e]),
        static_cast<std::uint64_t>(count) * static_cast<unsigned>(a.width) * sizeof(float),
        trip.back_ready + e, epoch);
  }
}

RUNGS_KERNEL(kThreads) returned_kernel(CountedArgs a, Trip trip) {
  const std::uint64_t epoch = *a.epoch;
  for (int e = 0; e < a.experts; ++e) {
    if (a.counts[a.rank * a.experts + e] == 0) continue;
    if (!symmetric::wait_signal(*a.context, trip.back_ready + e, epoch, e / a.local_experts))
      return;
  }
}

gpu::LaunchConfig blocks(int work) {
  return {.grid = {.x = static_cast<unsigned>(std::min(work, kBlocks))}, .block = {.x = kThreads}};
}

// What one layer takes of the heap; the constructor and counted_heap_bytes() both follow it.
struct Windows {
  Windows(const Shape& shape, int ranks)
      : source_rows(shape.max_tokens),
        expert_rows(padded_rows(1ll * ranks * shape.max_tokens)),
        tallies(2u * static_cast<unsigned>(ranks)),
        announced(static_cast<unsigned>(ranks)),
        source(block_elements(shape.experts, source_rows, shape)),
        at_experts(block_elements(shape.experts / ranks, expert_rows, shape)),
        signals(static_cast<unsigned>(shape.experts)) {}  // L·R = E of either kind

  [[nodiscard]] std::size_t bytes() const {
    const auto window = [](std::size_t size_bytes) { return (size_bytes + 255) / 256 * 256; };
    return window(tallies * sizeof(Tally)) + window(announced * sizeof(std::uint64_t)) +
           window(source * sizeof(bf16)) + window(at_experts * sizeof(float)) +
           kTrips * (window(at_experts * sizeof(bf16)) + window(source * sizeof(float)) +
                     2 * window(signals * sizeof(std::uint64_t)));
  }

  int source_rows, expert_rows;
  std::size_t tallies, announced, source, at_experts, signals;
};

class Counted final : public RowExchange {
 public:
  Counted(const ExchangeArgs& a, const gpu::Device& device)
      : Counted(a, Windows(a.shape, a.ranks), device) {}

  void announce(const Routing& routing, const gpu::Queue& queue) const override {
    gpu::launch("moe_announce", blocks(1), queue.stream, announce_kernel, args_, routing);
  }
  void out(const Journey& journey, const gpu::Queue& queue) const override {
    const Trip& trip = trip_of(journey);
    gpu::launch("moe_out", blocks(args_.experts), queue.stream, out_kernel, args_, trip);
    gpu::launch("moe_arrive", blocks(args_.local_experts), queue.stream, arrive_kernel, args_,
                trip);
  }
  void back(const Journey& journey, const gpu::Queue& queue) const override {
    const Trip& trip = trip_of(journey);
    gpu::launch("moe_back", blocks(args_.experts), queue.stream, back_kernel, args_, trip);
    gpu::launch("moe_returned", blocks(1), queue.stream, returned_kernel, args_, trip);
  }

 private:
  Counted(const ExchangeArgs& a, const Windows& windows, const gpu::Device& device)
      : tally_(device, 1),
        epoch_(device, 1),
        counts_(device, static_cast<std::size_t>(a.ranks * a.shape.experts)),
        starts_(device, counts_.size()),
        arriving_(device, static_cast<std::size_t>(a.local_experts())) {
    symmetric::Context& heap = *a.context;
    source_rows = windows.source_rows;
    expert_rows = windows.expert_rows;
    padding = Padding::kNone;
    args_ = {.context = heap.on_device(),
             .ranks = a.ranks,
             .rank = a.rank,
             .experts = a.shape.experts,
             .local_experts = a.local_experts(),
             .source_rows = source_rows,
             .expert_rows = expert_rows,
             .width = a.shape.width,
             .tally = tally_.data(),
             .tallies = heap.allocate<Tally>(windows.tallies),
             .announced = heap.allocate<std::uint64_t>(windows.announced),
             .epoch = epoch_.data(),
             .counts = counts_.data(),
             .starts = starts_.data(),
             .arriving = arriving_.data()};
    bf16* const sent = heap.allocate<bf16>(windows.source);
    float* const answers = heap.allocate<float>(windows.at_experts);
    for (Trip& trip : trips_) {
      trip.memory = {sent, heap.allocate<bf16>(windows.at_experts), answers,
                     heap.allocate<float>(windows.source)};
      trip.out_ready = heap.allocate<std::uint64_t>(windows.signals);
      trip.back_ready = heap.allocate<std::uint64_t>(windows.signals);
    }
    forward = trips_[0].memory;
    backward = trips_[1].memory;
    arriving = arriving_.data();
    tally = tally_.data();
    // A pass that ends before its counts are known (a peer was lost) must find some.
    const gpu::Stream stream(device);
    for (const gpu::Buffer<std::int32_t>* buffer : {&counts_, &starts_, &arriving_})
      gpu::fill_async(buffer->data(), 0, buffer->size_bytes(), stream);
    gpu::fill_async(epoch_.data(), 0, epoch_.size_bytes(), stream);
    stream.synchronize();
  }

  [[nodiscard]] const Trip& trip_of(const Journey& journey) const {
    return trips_[journey.arrived == forward.arrived ? 0 : 1];
  }

  gpu::Buffer<Tally> tally_;
  gpu::Buffer<std::uint64_t> epoch_;
  gpu::Buffer<std::int32_t> counts_, starts_, arriving_;
  CountedArgs args_{};
  std::array<Trip, kTrips> trips_{};
};

}  // namespace

void join_counted(ExchangeArgs& args) {
  args.ranks = args.context->size();
  args.rank = args.context->rank();
}

std::size_t counted_heap_bytes(const Shape& shape, int ranks) {
  return Windows(shape, ranks).bytes();
}

std::unique_ptr<RowExchange> make_counted(const ExchangeArgs& args, const gpu::Device& device) {
  return std::make_unique<Counted>(args, device);
}

}  // namespace rungs::moe
