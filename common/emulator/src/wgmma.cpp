#include "wgmma.hpp"

#include <rungs/core/error.hpp>

#include "report.hpp"
#include "sanitizer.hpp"
#include "trace_hooks.hpp"
#include "wgmma_math.hpp"
#include "wgmma_operand.hpp"
#include "worker.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

namespace rungs::emulator {
namespace {

constexpr unsigned kThreads = 128;
constexpr std::size_t kRows = 64;

using Float2 = float __attribute__((vector_size(8)));
using Float4 = float __attribute__((vector_size(16)));

[[gnu::noinline]] void start_using_wgmma(Thread& thread, Location where) {
  Block& block = thread.home();
  if (thread.index() / kThreads >= block.thread_count / kThreads) {
    fail(where, "wgmma needs four whole warps, the first's number a multiple of four",
         "wgmma by thread %u, which is in no full warpgroup of a block of %u", thread.index(),
         block.thread_count);
  }
  if (block.warp_groups.empty()) block.warp_groups.resize(block.thread_count / kThreads);
  block.shared.track();
}

inline WarpGroup& warp_group_of(Thread& thread, Location where) {
  Block& block = thread.home();
  const unsigned i = thread.index() / kThreads;
  if (i >= block.warp_groups.size() || !block.shared.tracked()) start_using_wgmma(thread, where);
  return block.warp_groups[i];
}

// Where the thread's d[0] and d[2] (neighbours) lie in column 0 or 1 of the tile.
std::size_t fragment_start(unsigned t) {
  const unsigned row = 16 * (t / 32) + t % 32 / 4;
  return std::size_t{2} * (t % 4) * kRows + fragment_row(row);
}

// d[4j .. 4j+3] = (r, c), (r, c+1), (r+8, c), (r+8, c+1), columns c = 8 j + 2 (t % 4).
void take_registers(float* tile, int n, unsigned t, const float* d) {
  float* at = tile + fragment_start(t);
  for (int j = 0; j < n / 8; j++, at += 8 * kRows, d += 4) {
    Float4 quad;
    std::memcpy(&quad, d, sizeof(quad));
    const Float2 left = __builtin_shufflevector(quad, quad, 0, 2);
    const Float2 right = __builtin_shufflevector(quad, quad, 1, 3);
    std::memcpy(at, &left, sizeof(left));
    std::memcpy(at + kRows, &right, sizeof(right));
  }
}

void give_registers(const float* tile, int n, unsigned t, float* d) {
  const float* at = tile + fragment_start(t);
  for (int j = 0; j < n / 8; j++, at += 8 * kRows, d += 4) {
    Float2 left, right;
    std::memcpy(&left, at, sizeof(left));
    std::memcpy(&right, at + kRows, sizeof(right));
    const Float4 quad = __builtin_shufflevector(left, right, 0, 2, 1, 3);
    std::memcpy(d, &quad, sizeof(quad));
  }
}

// What accumulator registers hold while they are in flight: a NaN that nobody computes.
constexpr std::uint32_t kInFlight = 0x7fd1f11e;

void poison_registers(float* d, int n) {
  auto* bits = reinterpret_cast<std::uint32_t*>(d);
  std::fill(bits, bits + n / 2, kInFlight);
}

bool still_poisoned(const float* d, int n) {
  std::uint32_t difference = 0;
  for (int i = 0; i < n / 2; i++) {
    std::uint32_t bits;
    __builtin_memcpy(&bits, d + i, sizeof(bits));
    difference |= bits ^ kInFlight;
  }
  return difference == 0;
}

AccumulatorTile& free_tile(WarpGroup& group, int n) {
  AccumulatorTile* found = nullptr;
  for (const auto& tile : group.tiles) {
    if (tile->users == 0 && tile->in_flight == 0) found = tile.get();
  }
  if (found == nullptr) {
    group.tiles.push_back(std::make_unique<AccumulatorTile>());
    found = group.tiles.back().get();
  }
  found->n = n;
  found->values.resize(static_cast<std::size_t>(n) * kRows);
  return *found;
}

AccumulatorTile* tile_of(WarpGroup& group, unsigned t, const float* d) {
  for (const auto& tile : group.tiles) {
    if (tile->owners[t].registers == d) return tile.get();
  }
  return nullptr;
}

// Carries out multiplication `number` of the warpgroup and those behind it of the same chain.
void land_products(Block& block, unsigned group_index, std::uint64_t number) {
  WarpGroup& group = block.warp_groups[group_index];
  if (number < group.done) return;  // carried out with an earlier one
  constexpr int kDepth = OperandPanels::kDepth;
  constexpr std::size_t kPitch = OperandPanels::kPitch;
  std::unique_ptr<OperandPanels>& panels = this_worker->panels;
  if (panels == nullptr) panels = std::make_unique<OperandPanels>();
  float* const a = panels->a;
  float* const b = panels->b;

  // The chain: multiplications on the same accumulators that all threads have posted.
  Multiplication* head = &group.queue[number - group.first];
  AccumulatorTile& tile = *head->tile;
  if (!head->accumulate) std::fill(tile.values.begin(), tile.values.end(), 0.0f);
  const bool alone = block.launch->options.async != Async::kLate;
  int length = 0;
  for (std::uint64_t i = number;
       i < group.first + group.queue.size() && length < OperandPanels::kMaxChain; i++) {
    Multiplication& next = group.queue[i - group.first];
    if (next.posted < static_cast<int>(kThreads) || next.tile != &tile) break;
    if (length > 0 && (alone || !next.accumulate)) break;
    sanitizer::acquire(&next.token);
    const auto depth = static_cast<std::size_t>(length * kDepth);
    if (!load_a(block, next.descriptor_a, next.transpose_a, a + depth * kRows, next.where)) return;
    if (!load_b(block, next.descriptor_b, next.transpose_b, next.n, b + depth, kPitch, next.where))
      return;
    length++;
  }
  multiply_tile(tile.values.data(), a, b, kPitch, tile.n, length * kDepth);
  tile.in_flight -= length;
  this_worker->counters.mma_flops +=
      std::uint64_t{2} * kRows * static_cast<unsigned>(tile.n * length * kDepth);
  group.done = number + static_cast<std::uint64_t>(length);
  if (group.done == group.first + group.queue.size()) {
    group.first = group.done;
    group.queue.clear();
  }
  sanitizer::release(&group.token);
  block.wake(group.waiting);
}

class Products final : public Landing {
 public:
  Products(unsigned warp_group, std::uint64_t number) : warp_group_(warp_group), number_(number) {}
  void land(Cluster& /*cluster*/, const AsyncOperation& operation) override {
    land_products(*operation.block, warp_group_, number_);
  }
  [[nodiscard]] trace::Description describe(const Block& block) const override;

 private:
  unsigned warp_group_;
  std::uint64_t number_;
};

trace::Description Products::describe(const Block& block) const {
  const WarpGroup& group = block.warp_groups[warp_group_];
  const Multiplication& multiplication = group.queue[number_ - group.first];
  return {concat("wgmma m64n", multiplication.n, "k16"),
          0,
          {{"accumulates", multiplication.accumulate ? "yes" : "no"}}};
}

}  // namespace

void WarpGroup::clear() {
  queue.clear();
  first = done = 0;
  group_ends.clear();
  waiting.clear();
  std::fill(std::begin(members), std::end(members), Member{});
  for (const auto& tile : tiles) {
    tile->in_flight = 0;
    if (tile->users > 0)
      std::fill(std::begin(tile->owners), std::end(tile->owners), AccumulatorTile::Owner{});
    tile->users = 0;
  }
}

namespace model {

void wgmma_fence(Location where) {
  Thread& self = this_thread();
  const sanitizer::Mute mute;
  warp_group_of(self, where).members[self.index() % kThreads].fenced = true;
  trace::instruction("wgmma.fence", where);
}

void wgmma_bf16(float* d, int n, bool transpose_a, bool transpose_b, std::uint64_t descriptor_a,
                std::uint64_t descriptor_b, bool accumulate, Location where) {
  const sanitizer::Mute mute;
  Thread& self = this_thread();
  Block& block = self.home();
  WarpGroup& group = warp_group_of(self, where);
  const unsigned t = self.index() % kThreads;
  if (n < 8 || n > 256 || n % 8 != 0)
    fail(where, "8 to 256, a multiple of 8", "wgmma with N = %d", n);

  trace::instruction("wgmma n", where, n);

  const std::uint64_t number = group.members[t].posted++;
  if (number == group.first + group.queue.size()) {
    Multiplication& fresh = group.queue.emplace_back();
    fresh = {descriptor_a, descriptor_b, n, transpose_a, transpose_b, accumulate, 0,
             nullptr,      where,        0};
  }
  Multiplication& multiplication = group.queue[number - group.first];
  if (multiplication.descriptor_a != descriptor_a || multiplication.descriptor_b != descriptor_b ||
      multiplication.n != n || multiplication.accumulate != accumulate ||
      multiplication.transpose_a != transpose_a || multiplication.transpose_b != transpose_b) {
    fail(where, "descriptors must not depend on the thread or the warp",
         "wgmma #%llu: the threads of the warpgroup disagree on descriptors, shape or accumulation",
         static_cast<unsigned long long>(number));
  }
  AccumulatorTile* tile = tile_of(group, t, d);
  if (tile == nullptr) {
    if (!group.members[t].fenced) {
      fail(where, "wgmma_fence() before the first multiplication and after touching accumulators",
           "wgmma on registers that were touched since the last wgmma.fence");
    }
    tile = multiplication.tile != nullptr ? multiplication.tile : &free_tile(group, n);
    tile->owners[t].registers = d;
    tile->users++;
    if (accumulate) take_registers(tile->values.data(), n, t, d);
    poison_registers(d, n);
  }
  tile->owners[t].last = number;
  if (multiplication.tile == nullptr) {
    multiplication.tile = tile;
    tile->in_flight++;
  }
  if (multiplication.tile != tile || tile->n != n) {
    fail(where, "one array of accumulators a chain",
         "wgmma #%llu: the threads of the warpgroup mix up accumulators",
         static_cast<unsigned long long>(number));
  }
  sanitizer::release(&multiplication.token);
  if (++multiplication.posted < static_cast<int>(kThreads)) return;
  AsyncOperation operation;
  operation.kind = AsyncOperation::Kind::kMultiplication;
  operation.block = &block;
  const unsigned warp_group = self.index() / kThreads;
  operation.landing = std::make_unique<Products>(warp_group, number);
  operation.stream = block.rank * 8 + warp_group;
  operation.where = where;
  block.cluster->submit(std::move(operation));
}

void wgmma_commit(Location where) {
  const sanitizer::Mute mute;
  Thread& self = this_thread();
  WarpGroup& group = warp_group_of(self, where);
  const unsigned t = self.index() % kThreads;
  const std::uint32_t committed = group.members[t].groups++;
  trace::commits("wgmma.commit_group", committed, group.members[t].posted, where);
  if (committed == group.group_ends.size()) {
    group.group_ends.push_back(group.members[t].posted);
  } else if (group.group_ends[committed] != group.members[t].posted) {
    fail(
        where, "all threads of the warpgroup must run the same multiplications",
        "wgmma.commit_group: the threads of the warpgroup disagree on the group's multiplications");
  }
}

void wgmma_wait(int pending, Location where) {
  const sanitizer::Mute mute;
  Thread& self = this_thread();
  WarpGroup& group = warp_group_of(self, where);
  const unsigned t = self.index() % kThreads;
  std::uint64_t end = 0;
  if (group.members[t].groups > static_cast<std::uint64_t>(pending))
    end = group.group_ends[group.members[t].groups - static_cast<std::uint64_t>(pending) - 1];
  trace::waits_for_multiplications("wgmma.wait_group", pending, end, where);
  if (end > 0) {
    while (group.done < end) {
      group.waiting.set(self.index());
      wait_for(self, WaitKind::kWgmma, end, 0, where);
    }
    sanitizer::acquire(&group.token);
  }
  // Registers come back by program order, not by what happens to be done: else late and early runs
  // would differ.
  bool all = true;
  for (const auto& tile : group.tiles) {
    if (tile->owners[t].registers == nullptr) continue;
    if (tile->owners[t].last >= end) {
      all = false;
      continue;
    }
    if (!still_poisoned(tile->owners[t].registers, tile->n)) {
      fail(where, "writes to accumulators between wgmma and the wait that covers it",
           "wgmma.wait_group: accumulator registers were written while a multiplication was in "
           "flight");
    }
    give_registers(tile->values.data(), tile->n, t, tile->owners[t].registers);
    tile->owners[t].registers = nullptr;
    tile->users--;
  }
  if (all) group.members[t].fenced = false;
}

}  // namespace model
}  // namespace rungs::emulator
