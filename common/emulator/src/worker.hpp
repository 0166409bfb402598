#pragma once
/// @file worker.hpp
/// One OS thread of an executor, and how its CUDA threads hand the processor to each other.
///
/// A CUDA thread runs on a pooled stack. The loop at the bottom of the stack (run_threads) starts
/// one thread after another; a thread that waits keeps the stack and the worker goes on with
/// another one. So a kernel without barriers needs one stack, whatever its size, and a thread costs
/// a few nanoseconds.

#include "cluster.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

namespace rungs::emulator {

class Worker {
 public:
  /// `index`: among the executor's workers.
  Worker(Executor::Impl& executor, std::size_t index);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// The OS thread's body: until the executor ends.
  void run();

  [[nodiscard]] bool belongs_to(const Executor::Impl& executor) const {
    return &executor_ == &executor;
  }

  // --- for the models
  Thread* running = nullptr;              // null: the scheduler, or an asynchronous operation, is
  std::uint64_t progress = 0;             // counts everything but fruitless polls
  Counters counters;                      // since the last cluster ended
  std::unique_ptr<OperandPanels> panels;  // the tensor-core model's; made at first use
  /// Counts progress if the polled value at `address` is not the one that any thread here saw last.
  void saw(const void* address, std::uint64_t value);
  /// Suspends the running thread; returns when it is picked again (it must be in a set, or
  /// somebody's waiter).
  void leave(Thread& self);
  /// Suspends the running thread for good, after a report.
  [[noreturn]] void abandon(Thread& self);
  /// TSan: an identity for an asynchronous operation.
  void* next_engine();

 private:
  static void run_threads();
  void drive(Cluster& cluster);
  void enter(Thread& thread);
  Context activate(Thread* next, void** tsan_fiber, Stack** stack);
  void switch_to(Context* save, void** fake_stack, Context to, void* tsan_fiber,
                 const Stack* stack);
  void arrived(void* fake_stack);
  void thread_ended(Thread& thread);

  void load_cluster(Launch& launch, std::uint64_t index, std::vector<Slot> slots);
  void unload(std::size_t resident_index);
  bool take_work();
  void rest(unsigned idle_rounds);
  void check_watchdog(bool start);

  Executor::Impl& executor_;
  const std::size_t index_;
  StackPool stacks_;
  Context scheduler_ = nullptr;
  void* scheduler_fake_stack_ = nullptr;
  const void* scheduler_bottom_ = nullptr;
  std::size_t scheduler_size_ = 0;
  void* scheduler_fiber_ = nullptr;
  std::vector<std::unique_ptr<Cluster>> resident_;
  std::vector<std::unique_ptr<Cluster>> free_clusters_;
  std::vector<std::unique_ptr<Block>> free_blocks_;
  std::vector<void*> engines_;
  std::size_t next_engine_ = 0;
  std::uint32_t released_stacks_ = 0;
  bool lazy_ = true;  // TSan needs a fiber for every CUDA thread

  // What polls have seen, direct mapped by a hash of the address.
  static constexpr unsigned kSeenBits = 10;
  std::vector<Thread::Poll> seen_ = std::vector<Thread::Poll>(std::size_t{1} << kSeenBits);

  std::uint64_t watched_progress_ = 0;
  std::chrono::steady_clock::time_point watched_since_{};
  std::vector<std::uint64_t> watched_rounds_;  // all workers' when the time was over; else empty
};

/// Checks a cluster whose threads have all ended: nothing may be left under way. (report.cpp)
void check_exit(Cluster& cluster);

/// The worker that the calling OS thread is; null elsewhere.
extern __thread Worker* this_worker __attribute__((tls_model("initial-exec")));

inline Thread& this_thread() { return *static_cast<Thread*>(current_thread); }

/// Notes the reason for which the running thread will be suspended: a report shows it.
inline void note_wait(Thread& self, WaitKind kind, std::uint64_t value, std::uint8_t detail,
                      Location where) {
  self.wait_kind_ = static_cast<std::uint8_t>(kind);
  self.wait_detail_ = detail;
  self.value = value;
  self.file = where.file;
  self.line = where.line;
}

/// The thread that hand_over() may be given: the next in order, if it is runnable and has been
/// running. Null: leave() has to find out what to do. For Block::plain blocks only.
inline Thread* successor(const Thread& self, const Block& block) {
  const unsigned i = block.cursor;
  if (i >= block.thread_count || !block.ready.test(i)) return nullptr;
  Thread* const next = &block.threads[i];
  return next->stack != nullptr && self.stack->has_room(stack_pointer()) ? next : nullptr;
}

/// leave() in favour of `next`, without its questions: whether the launch is aborted, above all, so
/// not without bound. To be the last call of a function.
inline void hand_over(Thread& self, Thread& next, Block& block) {
  const unsigned i = block.cursor;
  block.ready.reset(i);
  block.cursor = i + 1;
  this_worker->counters.fiber_switches++;
  this_worker->running = &next;
  current_thread = &next;
  Block::prefetch_after(next);
  switch_context(&self.context, next.context);
}

/// Suspends the running thread with the reason that a report shows.
inline void wait_for(Thread& self, WaitKind kind, std::uint64_t value, std::uint8_t detail,
                     Location where) {
  note_wait(self, kind, value, detail, where);
  Block& block = self.home();
  Thread* const next = block.plain ? successor(self, block) : nullptr;
  if (next != nullptr) return hand_over(self, *next, block);
  this_worker->leave(self);
}

}  // namespace rungs::emulator
