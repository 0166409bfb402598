#pragma once
/// @file trace_recorder.hpp
/// What is recorded of one cluster of a traced launch while it runs; raw, for trace_tracks.cpp.

#include <rungs/emulator/executor.hpp>

#include "trace_clock.hpp"
#include "trace_counts.hpp"

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace rungs::emulator::trace {

/// The end of what had none.
constexpr Step kOpen = ~Step{0};

/// A warp instruction, and the wait that follows it.
struct WarpInstruction {
  Site site;
  std::int64_t number = kNoNumber;
  Step at = 0;  // it takes the step after
  std::uint32_t lanes = 0;
  Step wait_end = 0;  // 0: it did not wait; kOpen: for ever
  std::int64_t waits_for = kNoNumber;
  bool polls = false;
  std::size_t copy = kNone;  // the operation that its lanes have started

  static constexpr std::size_t kNone = ~std::size_t{0};
};

struct WarpRecord {
  std::vector<WarpInstruction> instructions;  // in order of their first lanes
  std::unordered_map<std::uint64_t, std::size_t> by_visit;
};

struct OperationRecord {
  What what{};
  unsigned rank = 0;  // of the block that issued it
  unsigned warp = 0;
  unsigned warp_group = 0;
  std::size_t instruction = 0;  // of the warp
  Step issued = 0;              // the step of the instruction
  Step landed = 0;              // 0: not yet
  unsigned pieces = 1;          // a copy by every lane of the instruction is one
  unsigned under_way = 1;       // of them
  Description description;
  Location where;
  bool drawn = false;
};

struct GroupRecord {
  unsigned warp_group = 0;
  std::uint64_t end = 0;  // multiplications below
  Step begin = 0;
  Location where;
};

struct PhaseRecord {
  std::uint32_t arrivals = 0;
  std::uint64_t expected_bytes = 0;
  std::uint64_t landed_bytes = 0;
};

/// An mbarrier from one initialisation to the next.
struct BarrierRecord {
  std::uint32_t offset = 0;
  std::uint32_t count = 0;
  Step begin = 0;
  Location where;
  Milestones ends;
  std::vector<PhaseRecord> phases;  // the last is under way
  std::vector<Mark> marks;
};

struct WarpGroupRecord {
  Milestones done;
  std::vector<std::size_t> operations;  // by number
  std::vector<GroupRecord> groups;
};

struct BlockRecord {
  Index3 index;
  bool drawn = false;
  std::size_t dropped = 0;
  std::vector<LaneClock> lanes;
  std::vector<WarpRecord> warps;
  std::vector<WarpGroupRecord> warp_groups;
  std::deque<BarrierRecord> barriers;
  std::unordered_map<std::uint32_t, BarrierRecord*> barrier_at;
};

class Recorder {
 public:
  /// @param room events that may still be drawn, of the whole launch
  Recorder(const Cluster& cluster, const std::optional<Index3>& cta,
           std::atomic<std::int64_t>* room);

  // --- the hooks
  /// Ends the lane's wait if it is over and counts one step. @return the warp instruction
  WarpInstruction& step(const char* name, std::int64_t number, Location where);
  void wait(const Milestones& awaited, std::size_t index, std::int64_t number);
  void poll(Location where);
  /// The running thread's last instruction waits for something that has no milestones.
  void hold() { lane().polling = true; }
  [[nodiscard]] bool waits(const Milestones& awaited, std::size_t index);
  void issue(AsyncOperation& operation);
  void begin_landing(const AsyncOperation& operation);
  void end_landing(Cluster& cluster, const AsyncOperation& operation);
  void commit(std::uint64_t group, std::uint64_t end, Location where);
  Milestones& meeting(const void* object) { return meetings_[object]; }
  BlockRecord& block(const Block& block);
  BarrierRecord& barrier(Block& block, const MBarrier& barrier);
  void mark(BlockRecord& block, BarrierRecord& barrier, Step at, std::string name);
  /// The time of what happens now: of the landing, else of the running thread.
  [[nodiscard]] Step time();
  LaneClock& lane();

  /// The cluster has ended: waits that are over end, others stay open.
  void finish();

  // --- what was recorded
  std::vector<BlockRecord> blocks;
  std::deque<OperationRecord> operations;
  Counts counts;
  Step now = 0;  // the latest time of all
  const void* cluster = nullptr;
  [[nodiscard]] const Milestones* find_meeting(const void* object) const {
    const auto found = meetings_.find(object);
    return found == meetings_.end() ? nullptr : &found->second;
  }

 private:
  void settle(BlockRecord& block, unsigned thread);
  bool may_draw(BlockRecord& block);
  OperationRecord describe(const AsyncOperation& operation);

  std::unordered_map<const void*, Milestones> meetings_;
  std::atomic<std::int64_t>* room_;
  struct LandingNow {
    Step at = 0;
    std::size_t operation = 0;
  };
  std::vector<LandingNow> landing_;  // an operation that lands may start another
  bool early_ = false;
};

/// Makes `recorder` the active one, and adds to it what the worker counts meanwhile.
class Scope {
 public:
  Scope(Recorder* recorder, const Counters& counters);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Recorder* before_;
  const Counters& counters_;
  Counters start_;
};

/// The timelines of the recorder's drawn blocks. (trace_tracks.cpp)
std::vector<Cta> timelines(const Recorder& recorder);

}  // namespace rungs::emulator::trace
