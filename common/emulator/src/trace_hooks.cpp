// What hooks do while a launch is traced.

#include "trace_hooks.hpp"

#include <rungs/core/error.hpp>

#include "sanitizer.hpp"
#include "trace_recorder.hpp"
#include "worker.hpp"

#include <cstring>
#include <string>

namespace rungs::emulator::trace::detail {

void instruction(const char* name, std::int64_t number, Location where) {
  const sanitizer::Mute mute;
  if (active->lane().polling && std::strcmp(name, "nanosleep") == 0) {  // part of the poll
    active->counts.instruction(name, false);
    return;
  }
  active->step(name, number, where);
}

void meets(const char* name, std::int64_t number, const void* object, bool arrives, bool waits,
           Location where) {
  const sanitizer::Mute mute;
  active->step(name, number, where);
  Milestones& meeting = active->meeting(object);
  LaneClock& lane = active->lane();
  if (arrives) {
    meeting.gather(lane.now);
    lane.arrived = meeting.times.size();
  }
  if (waits) active->wait(meeting, lane.arrived, number);
}

void met(const void* object) {
  const sanitizer::Mute mute;
  Milestones& meeting = active->meeting(object);
  meeting.reach(meeting.gathering);
}

void polls(Location where) {
  const sanitizer::Mute mute;
  active->poll(where);
}

void blocks() {
  const sanitizer::Mute mute;
  active->hold();
}

void shared_access(const char* name, std::uint32_t address, unsigned size_bytes, Location where) {
  const sanitizer::Mute mute;
  const Thread& self = this_thread();
  LaneClock& lane = active->lane();
  // The warp's number in the cluster; the visit keeps a lane's accesses at one site apart.
  const unsigned warp = self.home().rank * 32 + self.index() / 32;
  const Site site{name, where};
  std::uint32_t visit = 0;
  for (const auto& [known, count] : lane.visits) {
    if (known == site) visit = count;
  }
  active->counts.access(warp, self.index() % 32, visit, site, address, size_bytes);
}

void mbarrier_init(Block& block, const MBarrier& barrier, Location where) {
  const sanitizer::Mute mute;
  active->step("mbarrier.init", barrier.offset, where);
  active->block(block).barrier_at[barrier.offset] = nullptr;
  active->barrier(block, barrier);
}

void mbarrier_arrives(const char* name, Block& block, const MBarrier& barrier,
                      std::uint32_t arrivals, std::uint32_t expect_bytes, Location where) {
  const sanitizer::Mute mute;
  active->step(name, barrier.offset, where);
  BarrierRecord& record = active->barrier(block, barrier);
  const Step at = active->lane().now;
  record.ends.gather(at);
  record.phases.back().arrivals += arrivals;
  record.phases.back().expected_bytes += expect_bytes;
  std::string what = concat("warp ", this_thread().index() / 32);
  if (arrivals != 0) what += " arrives";
  if (expect_bytes != 0) what += concat(" expects ", expect_bytes, " bytes");
  active->mark(active->block(block), record, at - 1, std::move(what));
}

void mbarrier_receives(Block& block, const MBarrier& barrier, std::uint32_t size_bytes) {
  const sanitizer::Mute mute;
  BarrierRecord& record = active->barrier(block, barrier);
  const Step at = active->time();
  record.ends.gather(at);
  record.phases.back().landed_bytes += size_bytes;
  record.phases.back().arrivals += size_bytes == 0 ? 1 : 0;  // cp.async.mbarrier.arrive
  active->mark(active->block(block), record, at > 0 ? at - 1 : 0,
               size_bytes == 0 ? "arrives by cp.async" : concat(size_bytes, " bytes land"));
}

void mbarrier_phase_over(Block& block, const MBarrier& barrier) {
  const sanitizer::Mute mute;
  BarrierRecord& record = active->barrier(block, barrier);
  record.ends.reach(record.ends.gathering);
  record.phases.emplace_back();
}

void mbarrier_waits(const char* name, const MBarrier& barrier, std::uint32_t parity,
                    Location where) {
  const sanitizer::Mute mute;
  Block& block = this_thread().home();
  BarrierRecord& record = active->barrier(block, barrier);
  const bool over = (barrier.phase & 1) != parity;
  const bool before_the_first = over && barrier.phase == 0;
  const std::uint32_t phase = over ? barrier.phase - 1 : barrier.phase;
  if (!before_the_first && active->waits(record.ends, phase)) {  // tries again
    active->counts.instruction(name, false);
    return;
  }
  active->step(name, barrier.offset, where);
  if (!before_the_first) active->wait(record.ends, phase, phase);
}

void commits(const char* name, std::uint64_t group, std::uint64_t end, Location where) {
  const sanitizer::Mute mute;
  active->step(name, kNoNumber, where);
  active->commit(group, end, where);
}

void waits_for_multiplications(const char* name, int pending, std::uint64_t end, Location where) {
  const sanitizer::Mute mute;
  active->step(name, pending, where);
  if (end == 0) return;
  const Thread& self = this_thread();
  const auto& groups = active->block(self.home()).warp_groups;
  active->wait(groups[self.index() / 128].done, end - 1, kNoNumber);
}

void issued(AsyncOperation& operation) {
  const sanitizer::Mute mute;
  active->issue(operation);
}

void begins_landing(const AsyncOperation& operation) {
  const sanitizer::Mute mute;
  active->begin_landing(operation);
}

void has_landed(Cluster& cluster, const AsyncOperation& operation) {
  const sanitizer::Mute mute;
  active->end_landing(cluster, operation);
}

}  // namespace rungs::emulator::trace::detail
