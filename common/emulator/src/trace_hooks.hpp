#pragma once
/// @file trace_hooks.hpp
/// What models tell the tracer. A hook costs a load and a branch while no launch is traced; a model
/// calls instruction() or its relative for each instruction, once, after its checks. Where a wait
/// ends, nothing needs to be said: the thread's next hook finds out.

#include <rungs/emulator/model.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace rungs::emulator {
struct AsyncOperation;
struct Block;
struct Cluster;
struct MBarrier;
}  // namespace rungs::emulator

namespace rungs::emulator::trace {

class Recorder;

/// The recorder of the cluster that this OS thread runs; null unless its launch is traced.
extern __thread Recorder* active __attribute__((tls_model("initial-exec")));

inline bool on() { return __builtin_expect(active != nullptr, 0) != 0; }

/// What an asynchronous operation says of itself.
struct Description {
  std::string name;         ///< "tma load 2d"; empty: by its kind
  std::uint64_t bytes = 0;  ///< that land, all destinations together
  std::vector<std::pair<std::string, std::string>> facts;
};

/// A number shown behind an instruction's name; kNoNumber: none.
constexpr std::int64_t kNoNumber = -1;

namespace detail {
void instruction(const char* name, std::int64_t number, Location where);
void meets(const char* name, std::int64_t number, const void* object, bool arrives, bool waits,
           Location where);
void met(const void* object);
void polls(Location where);
void blocks();
void shared_access(const char* name, std::uint32_t address, unsigned size_bytes, Location where);
void mbarrier_init(Block& block, const MBarrier& barrier, Location where);
void mbarrier_arrives(const char* name, Block& block, const MBarrier& barrier,
                      std::uint32_t arrivals, std::uint32_t expect_bytes, Location where);
void mbarrier_receives(Block& block, const MBarrier& barrier, std::uint32_t size_bytes);
void mbarrier_phase_over(Block& block, const MBarrier& barrier);
void mbarrier_waits(const char* name, const MBarrier& barrier, std::uint32_t parity,
                    Location where);
void commits(const char* name, std::uint64_t group, std::uint64_t end, Location where);
void waits_for_multiplications(const char* name, int pending, std::uint64_t end, Location where);
void issued(AsyncOperation& operation);
void begins_landing(const AsyncOperation& operation);
void has_landed(Cluster& cluster, const AsyncOperation& operation);
}  // namespace detail

/// The calling thread executes an instruction that waits for nobody. `name` must live for ever.
inline void instruction(const char* name, Location where, std::int64_t number = kNoNumber) {
  if (on()) detail::instruction(name, number, where);
}

/// The calling thread arrives at, or waits for, a meeting point that met() completes: a barrier, a
/// warp collective.
inline void meets(const char* name, const void* object, bool arrives, bool waits, Location where,
                  std::int64_t number = kNoNumber) {
  if (on()) detail::meets(name, number, object, arrives, waits, where);
}
inline void met(const void* object) {
  if (on()) detail::met(object);
}

/// The calling thread has polled in vain.
inline void polls(Location where) {
  if (on()) detail::polls(where);
}

/// The calling thread has to wait for what instruction() said it executes. For waits that have no
/// hook of their own: they end at the step that the cluster has reached when the thread goes on.
inline void blocks() {
  if (on()) detail::blocks();
}

/// Every lane that takes part in an access to shared memory calls it, before instruction().
/// @param address shared-memory byte offset  @param size_bytes of the lane's access: 1 to 16
inline void shared_access(const char* name, std::uint32_t address, unsigned size_bytes,
                          Location where) {
  if (on()) detail::shared_access(name, address, size_bytes, where);
}

inline void mbarrier_init(Block& block, const MBarrier& barrier, Location where) {
  if (on()) detail::mbarrier_init(block, barrier, where);
}
/// `block`: whose barrier it is. Before the barrier changes.
inline void mbarrier_arrives(const char* name, Block& block, const MBarrier& barrier,
                             std::uint32_t arrivals, std::uint32_t expect_bytes, Location where) {
  if (on()) detail::mbarrier_arrives(name, block, barrier, arrivals, expect_bytes, where);
}
/// Bytes of a copy that lands. Before the barrier changes.
inline void mbarrier_receives(Block& block, const MBarrier& barrier, std::uint32_t size_bytes) {
  if (on()) detail::mbarrier_receives(block, barrier, size_bytes);
}
/// Before the phase number changes.
inline void mbarrier_phase_over(Block& block, const MBarrier& barrier) {
  if (on()) detail::mbarrier_phase_over(block, barrier);
}
/// The calling thread tests, or waits, for the end of the phase of that parity.
inline void mbarrier_waits(const char* name, const MBarrier& barrier, std::uint32_t parity,
                           Location where) {
  if (on()) detail::mbarrier_waits(name, barrier, parity, where);
}

/// The calling thread closes a group of multiplications: those of its warpgroup below `end`.
inline void commits(const char* name, std::uint64_t group, std::uint64_t end, Location where) {
  if (on()) detail::commits(name, group, end, where);
}
/// The calling thread waits for its warpgroup's multiplications below `end`.
inline void waits_for_multiplications(const char* name, int pending, std::uint64_t end,
                                      Location where) {
  if (on()) detail::waits_for_multiplications(name, pending, end, where);
}

inline void issued(AsyncOperation& operation) {
  if (on()) detail::issued(operation);
}
/// While an operation takes effect.
class Landing {
 public:
  Landing(Cluster& cluster, const AsyncOperation& operation)
      : cluster_(cluster),
        operation_(operation) {
    if (on()) detail::begins_landing(operation);
  }
  ~Landing() {
    if (on()) detail::has_landed(cluster_, operation_);
  }
  Landing(const Landing&) = delete;
  Landing& operator=(const Landing&) = delete;

 private:
  Cluster& cluster_;
  const AsyncOperation& operation_;
};

}  // namespace rungs::emulator::trace
