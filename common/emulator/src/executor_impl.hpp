#pragma once
/// @file executor_impl.hpp
/// What the workers of an executor share.

#include <rungs/emulator/executor.hpp>

#include "launch_state.hpp"
#include "residency.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace rungs::emulator {

struct HostWork {
  std::function<void()> work;
  std::function<void()> done;
  char token = 0;
};

struct Executor::Impl {
  Impl(int sm_count, int worker_count)
      : sms(sm_count),
        rounds(static_cast<std::size_t>(worker_count)),
        residency(sm_count) {}

  // --- for the workers
  /// Runs one piece of host work; false if there is none.
  bool run_host_work();
  /// Reserves room for the next cluster of the oldest launch that fits; null if none does.
  Launch* take_cluster(std::uint64_t* index, std::vector<Slot>* slots);
  /// Gives the room back and takes over the worker's counters; completes the launch after its last
  /// cluster.
  void cluster_ended(Launch& launch, const std::vector<Slot>& slots, Counters* counters);
  /// Sleeps until there may be work; false when the executor ends.
  bool wait_for_work();
  /// Sleeps that long, or until there may be work.
  void wait_for_offer(std::chrono::microseconds duration);

  /// Wakes sleeping workers for new work; call with the mutex held.
  void announce(std::uint64_t pieces);
  void finish(std::unique_lock<std::mutex>& lock, Launch& launch);

  const int sms;
  std::atomic<int> offers{
      0};  // host work and launches with untaken clusters: what workers look at first
  // Of each worker: odd while it runs what it holds, even while it rests. It has added what it did
  // to `progress` before it rests.
  std::vector<std::atomic<std::uint64_t>> rounds;
  std::atomic<std::uint64_t> progress{0};

  std::mutex mutex;  // guards all below
  std::condition_variable work_ready;
  std::condition_variable all_done;
  std::vector<std::unique_ptr<Launch>> launches;  // in flight, oldest first
  std::deque<std::unique_ptr<HostWork>> host_work;
  Residency residency;
  std::uint64_t in_flight = 0;  // launches and host work whose `done` has not returned
  int sleeping = 0;
  bool stopping = false;
  Counters totals;

  std::vector<std::thread> threads;
};

}  // namespace rungs::emulator
