#include "wgmma.hpp"

#include <rungs/core/error.hpp>

#include "report.hpp"
#include "sanitizer.hpp"
#include "trace_hooks.hpp"
#include "wgmma_operand.hpp"
#include "worker.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

namespace rungs::emulator {
namespace {

constexpr unsigned kThreads = kWarpGroupThreads;

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

AccumulatorTile& free_tile(WarpGroup& group, int n, WgmmaType type, Location where) {
  AccumulatorTile* found = nullptr;
  for (const auto& tile : group.tiles) {
    if (tile->users == 0 && tile->in_flight == 0) found = tile.get();
  }
  if (found == nullptr) {
    group.tiles.push_back(std::make_unique<AccumulatorTile>());
    found = group.tiles.back().get();
  }
  found->n = n;
  found->type = type;
  found->where = where;
  found->values.resize(static_cast<std::size_t>(n) * AccumulatorTile::kRows);
  return *found;
}

AccumulatorTile* tile_of(WarpGroup& group, unsigned t, const void* d) {
  for (const auto& tile : group.tiles) {
    if (tile->owners[t].registers == d) return tile.get();
  }
  return nullptr;
}

// The calling thread posts another multiplication than the threads before it.
[[noreturn]] void report_disagreement(const Multiplication& first,
                                      const WgmmaInstruction& instruction,
                                      std::uint64_t descriptor_a, std::uint64_t descriptor_b,
                                      bool accumulate, std::uint64_t number, Location where) {
  constexpr const char* kHint = "arguments must not depend on the thread or the warp";
  const auto index = static_cast<unsigned long long>(number);
  if (first.instruction != instruction) {
    fail(where, "all threads of the warpgroup must run the same multiplications",
         "wgmma #%llu: the threads of the warpgroup disagree on the instruction: %s here, %s in "
         "others (line %d)",
         index, WgmmaName(instruction).text, WgmmaName(first.instruction).text, first.where.line);
  }
  if (first.accumulate != accumulate) {
    fail(
        where, kHint,
        "wgmma #%llu: the threads of the warpgroup disagree on accumulation: %d here, %d in others",
        index, static_cast<int>(accumulate), static_cast<int>(first.accumulate));
  }
  const bool a = first.descriptor_a != descriptor_a;
  fail(where, kHint,
       "wgmma #%llu: the threads of the warpgroup disagree on descriptors (%s): %#llx here, %#llx "
       "in others",
       index, a ? "A" : "B", static_cast<unsigned long long>(a ? descriptor_a : descriptor_b),
       static_cast<unsigned long long>(a ? first.descriptor_a : first.descriptor_b));
}

// Operand A in thread t's registers: they must not change before the multiplication is done, nor
// have changed since the last wgmma.fence.
void post_registers(WarpGroup& group, unsigned t, Multiplication& m, std::uint64_t number,
                    const std::uint32_t* a, Location where) {
  if (m.registers_a == nullptr) m.registers_a = std::make_unique<RegisterOperand>();
  std::memcpy(m.registers_a->values[t], a, sizeof(m.registers_a->values[t]));
  if (group.held == nullptr) group.held = std::make_unique<HeldRegisters>();
  HeldRegisters::Held& latest = group.held->latest[t];
  const WarpGroup::Member& member = group.members[t];
  const bool changed =
      latest.registers != a || std::memcmp(latest.values, a, sizeof(latest.values)) != 0;
  if (!member.fenced || (latest.registers == a && changed && latest.fences == member.fences)) {
    fail(where, "wgmma_fence() between writing registers of A and the multiplication",
         "wgmma #%llu reads registers of A that were written since the last wgmma.fence",
         static_cast<unsigned long long>(number));
  }
  latest.registers = a;
  std::memcpy(latest.values, a, sizeof(latest.values));
  latest.number = number;
  latest.fences = member.fences;
  group.held->in_flight[t].push_back(latest);
}

// Of the multiplications up to `end` thread t's registers of A are free, and must be as they were.
void release_registers(WarpGroup& group, unsigned t, std::uint64_t end, Location where) {
  std::vector<HeldRegisters::Held>& in_flight = group.held->in_flight[t];
  std::size_t kept = 0;
  for (const HeldRegisters::Held& held : in_flight) {
    if (held.number >= end) {
      in_flight[kept++] = held;
      continue;
    }
    std::uint32_t difference = 0;
    for (unsigned i = 0; i < 4; i++) difference |= held.registers[i] ^ held.values[i];
    if (difference != 0) {
      fail(where,
           "an array of A of its own for every multiplication in flight, in scope until the wait",
           "wgmma.wait_group: registers of A were changed while multiplication #%llu was in flight",
           static_cast<unsigned long long>(held.number));
    }
  }
  in_flight.resize(kept);
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
  return {concat("wgmma ", WgmmaName(multiplication.instruction).text),
          0,
          {{"accumulates", multiplication.accumulate ? "yes" : "no"}}};
}

}  // namespace

WgmmaName::WgmmaName(const WgmmaInstruction& instruction) {
  static constexpr const char* kTypes[] = {"f32",  "f16", "bf16", "tf32", "e4m3",
                                           "e5m2", "s8",  "u8",   "s32"};
  const auto type = [](WgmmaType t) { return kTypes[static_cast<std::size_t>(t)]; };
  std::snprintf(text, sizeof(text), "m64n%dk%d.%s.%s.%s%s", instruction.n, depth_of(instruction.a),
                type(instruction.d), type(instruction.a), type(instruction.b),
                instruction.satfinite ? ".satfinite" : "");
}

void WarpGroup::clear() {
  queue.clear();
  first = done = 0;
  group_ends.clear();
  waiting.clear();
  std::fill(std::begin(members), std::end(members), Member{});
  if (held != nullptr) {
    for (auto& in_flight : held->in_flight) in_flight.clear();
    std::fill(std::begin(held->latest), std::end(held->latest), HeldRegisters::Held{});
  }
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
  WarpGroup::Member& member = warp_group_of(self, where).members[self.index() % kThreads];
  member.fenced = true;
  trace::instruction("wgmma.fence", where);
  member.fences++;
}

void wgmma(const WgmmaInstruction& instruction, void* d, std::uint64_t descriptor_a,
           const std::uint32_t* a, std::uint64_t descriptor_b, bool accumulate, Location where) {
  const sanitizer::Mute mute;
  Thread& self = this_thread();
  Block& block = self.home();
  WarpGroup& group = warp_group_of(self, where);
  const unsigned t = self.index() % kThreads;
  if (instruction.n < 8 || instruction.n > 256 || instruction.n % 8 != 0)
    fail(where, "8 to 256, a multiple of 8", "wgmma with N = %d", instruction.n);

  trace::instruction("wgmma n", where, instruction.n);
  WarpGroup::Member& member = group.members[t];
  const std::uint64_t number = member.posted++;
  if (number == group.first + group.queue.size()) {
    Multiplication& fresh = group.queue.emplace_back();
    fresh.descriptor_a = descriptor_a;
    fresh.descriptor_b = descriptor_b;
    fresh.instruction = instruction;
    fresh.accumulate = accumulate;
    fresh.where = where;
  }
  Multiplication& multiplication = group.queue[number - group.first];
  if (multiplication.descriptor_a != descriptor_a || multiplication.descriptor_b != descriptor_b ||
      multiplication.instruction != instruction || multiplication.accumulate != accumulate) {
    report_disagreement(multiplication, instruction, descriptor_a, descriptor_b, accumulate, number,
                        where);
  }
  AccumulatorTile* tile = tile_of(group, t, d);
  if (tile == nullptr) {
    if (!member.fenced) {
      fail(where, "wgmma_fence() before the first multiplication and after touching accumulators",
           "wgmma on registers that were touched since the last wgmma.fence");
    }
    tile = multiplication.tile != nullptr ? multiplication.tile
                                          : &free_tile(group, instruction.n, instruction.d, where);
    if (tile->n == instruction.n && tile->type == instruction.d) {
      tile->owners[t] = {d, number, member.fences, instruction.a};
      tile->users++;
      if (accumulate) tile->take(t, d);
      tile->poison(d);
    }
  }
  if (multiplication.tile == nullptr) {
    multiplication.tile = tile;
    tile->in_flight++;
  }
  if (multiplication.tile != tile || tile->n != instruction.n || tile->type != instruction.d) {
    fail(where, "one array of accumulators, of one type and N, a chain",
         "wgmma #%llu: the threads of the warpgroup mix up accumulators: %s here, N = %d is in "
         "flight",
         static_cast<unsigned long long>(number), WgmmaName(instruction).text, tile->n);
  }
  AccumulatorTile::Owner& owner = tile->owners[t];
  if (owner.operand != instruction.a && owner.fences == member.fences &&
      depth_of(owner.operand) != depth_of(instruction.a)) {
    fail(where, "wgmma_fence() between multiplications of different shape",
         "wgmma #%llu adds K = %d to accumulators on which K = %d is in flight, without a "
         "wgmma.fence between",
         static_cast<unsigned long long>(number), depth_of(instruction.a), depth_of(owner.operand));
  }
  owner.last = number;
  owner.fences = member.fences;
  owner.operand = instruction.a;
  if (instruction.a_in_registers) post_registers(group, t, multiplication, number, a, where);
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

void wgmma_bf16(float* d, int n, bool transpose_a, bool transpose_b, std::uint64_t descriptor_a,
                std::uint64_t descriptor_b, bool accumulate, Location where) {
  WgmmaInstruction instruction;
  instruction.n = static_cast<std::int16_t>(n);
  instruction.d = WgmmaType::kF32;
  instruction.a = instruction.b = WgmmaType::kBf16;
  instruction.transpose_a = transpose_a;
  instruction.transpose_b = transpose_b;
  wgmma(instruction, d, descriptor_a, nullptr, descriptor_b, accumulate, where);
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
  if (group.held != nullptr) release_registers(group, t, end, where);
  // Registers come back by program order, not by what happens to be done: else late and early runs
  // would differ.
  bool all = true;
  for (const auto& tile : group.tiles) {
    if (tile->owners[t].registers == nullptr) continue;
    if (tile->owners[t].last >= end) {
      all = false;
      continue;
    }
    if (!tile->still_poisoned(tile->owners[t].registers)) {
      fail(where, "writes to accumulators between wgmma and the wait that covers it",
           "wgmma.wait_group: accumulator registers were written while a multiplication was in "
           "flight");
    }
    tile->give(t, tile->owners[t].registers);
    tile->owners[t].registers = nullptr;
    tile->users--;
  }
  if (all) group.members[t].fenced = false;
}

}  // namespace model
}  // namespace rungs::emulator
