#pragma once
/// @file block.hpp
/// A resident block (CTA): its threads, barriers and shared memory. Owned and run by one worker, so
/// nothing here is locked. Blocks are pooled: load() makes one ready for its next launch.

#include <rungs/emulator/device.hpp>
#include <rungs/emulator/model.hpp>

#include "async_copy.hpp"
#include "launch_state.hpp"
#include "mbarrier.hpp"
#include "shared_memory.hpp"
#include "stack_pool.hpp"
#include "thread_set.hpp"
#include "warp.hpp"
#include "wgmma.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace rungs::emulator {

struct Block;
struct BulkGroups;
struct Cluster;

/// What a suspended thread waits for; rendered by report.cpp.
enum class WaitKind : std::uint8_t {
  kNothing,
  kBarrier,     // value: id
  kCollective,  // value: mask
  kMbarrier,    // value: offset, detail: parity
  kTryWait,     // as kMbarrier, polling
  kWgmma,       // value: multiplications that must be done
  kCluster,
  kPoll,  // value: address
  kYield,
  kBulk,       // value: operations of its bulk groups, detail: 1 if only their sources must be read
  kRegisters,  // value: registers a thread
  kPrerequisites,  // griddepcontrol.wait
  kGathering,      // value: which of the warp's
  kAsyncCopy,      // value: copies that must have landed
};

/// A CUDA thread: one cache line that every switch touches, and one for polls. `stack` is null
/// until it runs and after it has ended.
struct alignas(64) Thread : ThreadContext {
  Stack* stack = nullptr;
  Context context = nullptr;
  /// What it waits for; afterwards the result of a warp collective.
  std::uint64_t value = 0;
  const char* file = "";
  int line = 0;

  // The last polls: address and value. A repeated one means that the thread spins.
  std::uint32_t polls = 0;
  static constexpr unsigned kRecent = 4;
  struct Poll {
    const void* address = nullptr;
    std::uint64_t value = 0;
  } recent[kRecent];
  std::uint64_t generation = 0;  // of the cluster barrier it arrived at

  [[nodiscard]] Block& home() const;
  [[nodiscard]] unsigned index() const { return index_; }
};

/// One of the 16 barriers of a block (bar.sync, bar.arrive).
struct NamedBarrier {
  unsigned expected = 0;
  unsigned arrived = 0;
  unsigned plain_arrivals = 0;  // that need no look at the rules: neither the first nor the last
  ThreadSet waiting;
  char token = 0;
};

struct Block : BlockContext {
  Cluster* cluster = nullptr;
  Launch* launch = nullptr;
  unsigned rank = 0;  // in the cluster
  unsigned thread_count = 0;
  unsigned word_count = 0;  // of the thread sets
  unsigned live = 0;        // threads that have not ended
  unsigned cursor = 0;      // where next() goes on looking
  bool direct = true;       // a thread that waits hands over to the next without the scheduler
  bool plain = true;        // and without telling a sanitizer: Worker::successor() may be asked

  ThreadSet ready;  // runnable, started or not
  ThreadSet spinning;
  ThreadSet ended;
  ThreadSet waiting_for_cluster;

  NamedBarrier barriers[16];
  MBarrierTable mbarriers;
  std::vector<Warp> warps;
  std::vector<WarpGroup> warp_groups;  // empty until the first wgmma instruction
  SharedMemory shared;
  std::shared_ptr<BulkGroups> bulk_groups;  // null until the first bulk store or reduction
  AsyncCopies copies;

  static constexpr unsigned kLookAhead = 4;
  std::unique_ptr<Thread[]> threads;  // and kLookAhead more, for pick()

  /// Prepares the block with index `index` of the launch's grid.
  void load(Launch& new_launch, Cluster& new_cluster, unsigned new_rank, Index3 index);
  /// The next thread to run, taken out of `ready`; null if none.
  Thread* pick();
  void wake(ThreadSet& waiting);
  /// Threads mostly go on in order. Their stacks do not fit in the first-level cache together:
  /// fetches ahead of `thread`, one of `threads`.
  static void prefetch_after(const Thread& thread) {
    __builtin_prefetch(&thread + kLookAhead);
    const char* next = static_cast<const char*>((&thread + 2)->context);
    __builtin_prefetch(next);
    __builtin_prefetch(next + 64);
    __builtin_prefetch(next + 128);
    __builtin_prefetch(next + 192);
  }
  [[nodiscard]] bool has_ready() const { return ready.any(word_count); }
  [[nodiscard]] bool has_spinning() const { return spinning.any(word_count); }

 private:
  unsigned thread_capacity_ = 0;
  Index3 numbered_size_;  // the block size whose indices the threads hold
};

inline Block& Thread::home() const {
  return static_cast<Block&>(const_cast<BlockContext&>(*block));
}

}  // namespace rungs::emulator
