// Recording a traced cluster.

#include "trace_recorder.hpp"

#include "worker.hpp"

#include <algorithm>
#include <utility>

namespace rungs::emulator::trace {
namespace {

std::uint64_t key_of(const Site& site, std::uint32_t visit) {
  std::uint64_t key = reinterpret_cast<std::uintptr_t>(site.name);
  for (const std::uint64_t part :
       {std::uint64_t{reinterpret_cast<std::uintptr_t>(site.where.file)},
        static_cast<std::uint64_t>(site.where.line), std::uint64_t{visit}}) {
    key = (key ^ part) * 0x9e3779b97f4a7c15ull;
    key ^= key >> 29;
  }
  return key;
}

bool same(const Index3& a, const Index3& b) { return a.x == b.x && a.y == b.y && a.z == b.z; }

}  // namespace

Recorder::Recorder(const Cluster& traced, const std::optional<Index3>& cta,
                   std::atomic<std::int64_t>* room)
    : blocks(traced.blocks.size()),
      cluster(&traced),
      room_(room),
      early_(traced.launch->options.async == Async::kEarly) {
  for (std::size_t r = 0; r < blocks.size(); r++) {
    const Block& block = *traced.blocks[r];
    blocks[r].index = block.block_index;
    blocks[r].drawn = !cta || same(*cta, block.block_index);
    blocks[r].lanes.resize(block.thread_count);
    blocks[r].warps.resize((block.thread_count + 31) / 32);
    blocks[r].warp_groups.resize((block.thread_count + 127) / 128);
  }
  counts.totals.blocks = blocks.size();
  counts.totals.threads = blocks.size() * traced.launch->threads_per_block;
}

BlockRecord& Recorder::block(const Block& block) { return blocks[block.rank]; }

LaneClock& Recorder::lane() {
  const Thread& self = this_thread();
  return block(self.home()).lanes[self.index()];
}

Step Recorder::time() { return landing_.empty() ? lane().now : landing_.back().at; }

bool Recorder::may_draw(BlockRecord& block) {
  if (!block.drawn) return false;
  if (room_->fetch_sub(1, std::memory_order_relaxed) > 0) return true;
  block.dropped++;
  return false;
}

// Has the lane take over the time of what it waited for. If that has not happened, the lane did not
// wait for it after all: a test that failed.
void Recorder::settle(BlockRecord& block, unsigned thread) {
  LaneClock& lane = block.lanes[thread];
  Step end = 0;
  if (lane.awaited != nullptr && lane.awaited->reached(lane.index))
    end = lane.awaited->times[lane.index];
  if (lane.polling) end = now;
  lane.awaited = nullptr;
  lane.polling = false;
  if (end <= lane.now) return;
  lane.now = end;
  WarpRecord& warp = block.warps[thread / 32];
  if (lane.instruction < warp.instructions.size()) {
    WarpInstruction& waited = warp.instructions[lane.instruction];
    waited.wait_end = std::max(waited.wait_end, end);
  }
}

WarpInstruction& Recorder::step(const char* name, std::int64_t number, Location where) {
  const Thread& self = this_thread();
  BlockRecord& home = block(self.home());
  settle(home, self.index());
  LaneClock& lane = home.lanes[self.index()];
  WarpRecord& warp = home.warps[self.index() / 32];
  const Site site{name, where};
  const std::uint32_t visit = lane.visit(site);
  const auto [found, fresh] =
      warp.by_visit.try_emplace(key_of(site, visit), warp.instructions.size());
  counts.instruction(name, fresh);
  if (fresh && !may_draw(home)) {
    // Not drawn, but the other lanes must find its time.
    warp.instructions.push_back(
        {site, number, lane.now, 0, 0, kNoNumber, false, WarpInstruction::kNone});
  } else if (fresh) {
    warp.instructions.push_back({site, number, lane.now, 1u << self.index() % 32, 0, kNoNumber,
                                 false, WarpInstruction::kNone});
  }
  WarpInstruction& instruction = warp.instructions[found->second];
  if (instruction.lanes != 0) instruction.lanes |= 1u << self.index() % 32;
  lane.instruction = found->second;
  // The warp meets again after a branch: lanes that had less to do catch up.
  instruction.at = std::max(instruction.at, lane.now);
  lane.now = instruction.at + 1;
  now = std::max(now, lane.now);
  return instruction;
}

void Recorder::wait(const Milestones& awaited, std::size_t index, std::int64_t number) {
  LaneClock& self = lane();
  self.awaited = &awaited;
  self.index = index;
  const Thread& thread = this_thread();
  block(thread.home()).warps[thread.index() / 32].instructions[self.instruction].waits_for = number;
}

bool Recorder::waits(const Milestones& awaited, std::size_t index) {
  const LaneClock& self = lane();
  return self.awaited == &awaited && self.index == index && !awaited.reached(index);
}

void Recorder::poll(Location where) {
  LaneClock& self = lane();
  counts.instruction("ld (poll)", false);
  if (self.polling) return;
  WarpInstruction& instruction = step("ld (poll)", kNoNumber, where);
  instruction.polls = true;
  self.polling = true;
}

OperationRecord Recorder::describe(const AsyncOperation& operation) {
  OperationRecord record;
  const bool multiplies = operation.kind == AsyncOperation::Kind::kMultiplication;
  record.what = multiplies ? What::kMultiplication : What::kCopy;
  record.rank = operation.block->rank;
  record.description = operation.landing->describe(*operation.block);
  record.where = operation.where;
  if (record.description.name.empty())
    record.description.name = multiplies ? "multiplication" : "copy";
  if (!landing_.empty()) {  // another operation starts it, by landing
    const OperationRecord& before = operations[landing_.back().operation];
    record.warp = before.warp;
    record.warp_group = before.warp_group;
    record.instruction = before.instruction;
    record.issued = landing_.back().at - 1;
    return record;
  }
  const unsigned thread = this_thread().index();
  record.warp = thread / 32;
  record.warp_group = thread / 128;
  record.instruction = lane().instruction;
  record.issued = lane().now - (lane().now > 0 ? 1 : 0);
  return record;
}

void Recorder::issue(AsyncOperation& operation) {
  OperationRecord record = describe(operation);
  counts.landed(record.description.name, record.description.bytes);
  BlockRecord& home = blocks[record.rank];
  auto& instructions = home.warps[record.warp].instructions;
  const bool by_lanes =
      record.what == What::kCopy && landing_.empty() && record.instruction < instructions.size();
  if (by_lanes && instructions[record.instruction].copy != WarpInstruction::kNone) {
    const std::size_t first = instructions[record.instruction].copy;
    operations[first].pieces++;
    operations[first].under_way++;
    operations[first].description.bytes += record.description.bytes;
    operation.trace_id = static_cast<std::uint32_t>(first + 1);
    return;
  }
  record.drawn = may_draw(home);
  if (by_lanes) instructions[record.instruction].copy = operations.size();
  if (record.what == What::kMultiplication)
    home.warp_groups[record.warp_group].operations.push_back(operations.size());
  operations.push_back(std::move(record));
  operation.trace_id = static_cast<std::uint32_t>(operations.size());
}

void Recorder::begin_landing(const AsyncOperation& operation) {
  if (operation.trace_id == 0) return;
  const std::size_t index = operation.trace_id - 1;
  const OperationRecord& record = operations[index];
  const bool multiplies = record.what == What::kMultiplication;
  Step at = now + 1;
  if (early_) {
    at = record.issued + 2;
    const auto& done = blocks[record.rank].warp_groups[record.warp_group].done.times;
    if (multiplies && !done.empty()) at = std::max(at, done.back() + 1);
  }
  // With an earlier one of its chain, or together with the other lanes' pieces.
  if (record.landed != 0 && (multiplies || record.landed == now)) at = record.landed;
  landing_.push_back({at, index});
  now = std::max(now, at);
}

void Recorder::end_landing(Cluster& traced, const AsyncOperation& operation) {
  if (operation.trace_id == 0) return;
  const Step at = landing_.back().at;
  OperationRecord& record = operations[landing_.back().operation];
  landing_.pop_back();
  if (record.what != What::kMultiplication) {
    record.landed = std::max(record.landed, at);
    record.under_way--;
    return;
  }
  // Whatever its landing carried out.
  WarpGroupRecord& group = blocks[record.rank].warp_groups[record.warp_group];
  const std::uint64_t done = traced.blocks[record.rank]->warp_groups[record.warp_group].done;
  while (group.done.times.size() < done && group.done.times.size() < group.operations.size()) {
    OperationRecord& over = operations[group.operations[group.done.times.size()]];
    over.landed = at;
    over.under_way = 0;
    group.done.times.push_back(at);
  }
}

void Recorder::commit(std::uint64_t group, std::uint64_t end, Location where) {
  const unsigned warp_group = this_thread().index() / 128;
  auto& groups = block(this_thread().home()).warp_groups[warp_group].groups;
  if (group != groups.size()) return;  // not its first thread
  groups.push_back({warp_group, end, lane().now, where});
}

BarrierRecord& Recorder::barrier(Block& owner, const MBarrier& barrier) {
  BlockRecord& home = block(owner);
  BarrierRecord*& found = home.barrier_at[barrier.offset];
  if (found == nullptr) {
    found = &home.barriers.emplace_back();
    found->offset = barrier.offset;
    found->count = barrier.count;
    found->begin = time();
    found->where = barrier.initialised_at;
    found->phases.emplace_back();
  }
  return *found;
}

void Recorder::mark(BlockRecord& home, BarrierRecord& barrier, Step at, std::string name) {
  if (may_draw(home)) barrier.marks.push_back({at, std::move(name)});
}

void Recorder::finish() {
  for (BlockRecord& block : blocks) {
    for (unsigned thread = 0; thread < block.lanes.size(); thread++) {
      LaneClock& lane = block.lanes[thread];
      const bool open =
          lane.polling || (lane.awaited != nullptr && !lane.awaited->reached(lane.index));
      if (!open) {
        settle(block, thread);
        continue;
      }
      WarpRecord& warp = block.warps[thread / 32];
      if (lane.instruction < warp.instructions.size())
        warp.instructions[lane.instruction].wait_end = kOpen;
    }
  }
  counts.finish();
}

__thread Recorder* active = nullptr;

Scope::Scope(Recorder* recorder, const Counters& counters)
    : before_(active),
      counters_(counters),
      start_(counters) {
  active = recorder;
}

Scope::~Scope() {
  if (active != nullptr) {
    Totals& totals = active->counts.totals;
    totals.mma_flops += counters_.mma_flops - start_.mma_flops;
    totals.barriers += counters_.barriers - start_.barriers;
    totals.fiber_switches += counters_.fiber_switches - start_.fiber_switches;
  }
  active = before_;
}

}  // namespace rungs::emulator::trace
