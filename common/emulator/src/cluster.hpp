#pragma once
/// @file cluster.hpp
/// A resident cluster: blocks that run on the same worker, and the asynchronous work they have
/// started.

#include "block.hpp"
#include "residency.hpp"
#include "trace_hooks.hpp"
#include "trace_recorder.hpp"

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

namespace rungs::emulator {

struct AsyncOperation;

/// What an asynchronous operation does to memory when it takes effect.
class Landing {
 public:
  virtual ~Landing() = default;
  virtual void land(Cluster& cluster, const AsyncOperation& operation) = 0;
  /// What a trace says of it; asked when it is issued.
  [[nodiscard]] virtual trace::Description describe(const Block& /*block*/) const { return {}; }
};

/// Work of TMA or of a tensor core that has been issued and has not taken effect.
struct AsyncOperation {
  enum class Kind : std::uint8_t { kCopy, kMultiplication };
  Kind kind{};
  Block* block = nullptr;    // that issued it
  std::uint64_t stream = 0;  // operations of one stream keep their order
  std::unique_ptr<Landing> landing;

  void* engine = nullptr;             // TSan: the identity under which it takes effect
  std::unique_ptr<char> issue_token;  // TSan: what its issuer did before
  Location where;
  std::uint32_t trace_id = 0;
};

/// Who executes an .aligned instruction: lanes of one warp, at one place.
struct AlignedUse {
  Location where;
  unsigned lanes = 0;
};

/// What a block needs only for the cluster's and its own registers' sake; see cluster_barrier.cpp
/// and registers.cpp.
struct BlockInCluster {
  ThreadSet arrived;                // at the cluster barrier, and have not waited since
  std::vector<AlignedUse> aligned;  // by warp
  bool triggered = false;           // griddepcontrol.launch_dependents
  // Registers; empty until the first setmaxnreg.
  struct WarpRegisters {
    unsigned count = 0;   // a thread
    bool chosen = false;  // by a setmaxnreg
  };
  std::vector<WarpRegisters> registers;  // by warp
  std::vector<AlignedUse> exchanges;     // by warpgroup: warps that executed the same setmaxnreg
  unsigned free_registers = 0;
  ThreadSet waiting_for_registers;
};

struct Cluster {
  Launch* launch = nullptr;
  std::vector<std::unique_ptr<Block>> blocks;
  std::vector<Slot> slots;  // where the blocks count as resident
  unsigned live = 0;        // threads that have not ended
  std::uint64_t random = 1;
  std::unique_ptr<trace::Recorder> recorder;  // of a traced launch

  // cluster barrier
  unsigned missing = 0;  // threads that live and have not arrived in this phase
  std::uint64_t generation = 0;
  char token = 0;
  std::vector<BlockInCluster> members;  // by rank

  std::vector<AsyncOperation> operations;
  std::deque<AsyncOperation> early;  // landing at their issue, one inside the other
  std::size_t first_operation = 0;
  std::uint32_t operation_ids = 0;

  [[nodiscard]] bool has_operations() const { return first_operation < operations.size(); }
  std::uint64_t next_random() {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    return random;
  }
  void load(Launch& new_launch, std::uint64_t index);
  [[nodiscard]] bool has_ready() const;
  [[nodiscard]] bool has_spinning() const;
  /// Makes polling threads runnable again.
  void rearm();
  /// Queues the operation, or carries it out at once (Async::kEarly).
  void submit(AsyncOperation operation);
  /// A thread of block `rank` has ended: the cluster barrier waits for it no more.
  void thread_ended(unsigned rank, unsigned thread) {
    if (!members[rank].arrived.test(thread) && (--missing > 0 || live == 0)) return;
    end_phase_without(rank, thread);
  }
  void end_phase_without(unsigned rank, unsigned thread);
  void end_barrier_phase();
  /// All threads have ended: what must not be left open, and blocks that release dependent launches
  /// by their end.
  void ended();
  /// Carries out one operation: the oldest multiplication, else the oldest copy; or a random
  /// operation that no other of its stream precedes.
  void land_one(bool at_random);
};

}  // namespace rungs::emulator
