// The worker's loop: which cluster runs, which is taken next, and what happens when all wait.

#include "executor_impl.hpp"
#include "report.hpp"
#include "sanitizer.hpp"
#include "trace_session.hpp"
#include "worker.hpp"

#include <rungs/core/deadline.hpp>

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>

namespace rungs::emulator {
namespace {

constexpr unsigned kBusyRounds = 32;  // fruitless rounds before a worker sleeps

void pause_processor() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

// Runs the cluster until all its threads have ended, wait for something outside, or its launch is
// aborted.
void Worker::drive(Cluster& cluster) {
  const trace::Scope traced(cluster.recorder.get(), counters);
  Launch& launch = *cluster.launch;
  const bool random = launch.options.async == Async::kRandom;
  const auto aborted = [&] { return launch.aborted.load(std::memory_order_relaxed); };
  while (cluster.live > 0 && !aborted()) {
    bool ran = false;
    for (const auto& block : cluster.blocks) {
      while (!aborted()) {
        if (random && cluster.has_operations() && cluster.next_random() % 16 == 0)
          cluster.land_one(true);
        Thread* thread = block->pick();
        if (thread == nullptr) break;
        enter(*thread);
        ran = true;
      }
    }
    if (ran) continue;
    if (cluster.has_operations()) {
      cluster.land_one(random);
    } else if (cluster.has_spinning()) {
      return;
    } else if (!aborted() && cluster.live > 0 && !cluster.has_ready()) {
      report_deadlock(
          cluster, "deadlock: every thread waits and no asynchronous operation is under way",
          "a barrier that not all threads reach, a wrong parity, a wrong arrival or byte count");
    }
  }
}

void Worker::load_cluster(Launch& launch, std::uint64_t index, std::vector<Slot> slots) {
  if (free_clusters_.empty()) free_clusters_.push_back(std::make_unique<Cluster>());
  std::unique_ptr<Cluster> cluster = std::move(free_clusters_.back());
  free_clusters_.pop_back();
  while (cluster->blocks.size() < launch.blocks_per_cluster) {
    if (free_blocks_.empty()) free_blocks_.push_back(std::make_unique<Block>());
    cluster->blocks.push_back(std::move(free_blocks_.back()));
    free_blocks_.pop_back();
  }
  while (cluster->blocks.size() > launch.blocks_per_cluster) {
    free_blocks_.push_back(std::move(cluster->blocks.back()));
    cluster->blocks.pop_back();
  }
  cluster->slots = std::move(slots);
  cluster->load(launch, index);
  if (launch.trace != nullptr) cluster->recorder = launch.trace->record(*cluster);
  resident_.push_back(std::move(cluster));
}

void Worker::unload(std::size_t resident_index) {
  std::unique_ptr<Cluster> cluster = std::move(resident_[resident_index]);
  resident_.erase(resident_.begin() + static_cast<std::ptrdiff_t>(resident_index));
  Launch& launch = *cluster->launch;
  {
    const trace::Scope traced(cluster->recorder.get(), counters);
    while (cluster->has_operations() && !launch.aborted) cluster->land_one(false);
  }
  if (cluster->recorder != nullptr) launch.trace->add(std::move(cluster->recorder));
  if (!launch.aborted) check_exit(*cluster);
  if (!launch.aborted) cluster->ended();
  if (launch.aborted) {
    for (const auto& block : cluster->blocks) {
      for (unsigned i = 0; i < block->thread_count; i++) {
        Thread& thread = block->threads[i];
        if (thread.stack != nullptr) stacks_.put_abandoned(thread.stack);
        thread.stack = nullptr;
      }
    }
    cluster->operations.clear();
    cluster->early.clear();
    cluster->first_operation = 0;
    sanitizer::release(&launch.end_token);
  }
  counters.blocks += cluster->blocks.size();
  counters.threads += cluster->blocks.size() * launch.threads_per_block;
  const std::vector<Slot> slots = std::move(cluster->slots);
  free_clusters_.push_back(std::move(cluster));
  executor_.cluster_ended(launch, slots, &counters);
}

// Host work, or one more cluster. False if there is none or no room for it.
bool Worker::take_work() {
  if (executor_.offers.load(std::memory_order_acquire) == 0) return false;
  if (executor_.run_host_work()) return true;
  std::uint64_t index = 0;
  std::vector<Slot> slots;
  Launch* launch = executor_.take_cluster(&index, &slots);
  if (launch == nullptr) return false;
  load_cluster(*launch, index, std::move(slots));
  return true;
}

// All that the worker holds polls in vain. Short waits first: the other side may be another worker,
// the host or another process; then sleep, because there may be fewer processors than waiting
// workers.
void Worker::rest(unsigned idle_rounds) {
  if (idle_rounds < kBusyRounds / 2) {
    for (int i = 0; i < 16; i++) pause_processor();
    return;
  }
  if (idle_rounds < kBusyRounds) {
    sched_yield();
    return;
  }
  const unsigned steps = std::min(idle_rounds - kBusyRounds + 1, 10u);
  executor_.wait_for_offer(std::chrono::microseconds(20 * steps));
}

// `start`: the worker has just begun to sleep between its polls. Another worker that runs when the
// time is over may be computing, or polling in vain as this one does: which of the two, the end of
// its round tells, for then it has published its progress.
void Worker::check_watchdog(bool start) {
  using Clock = std::chrono::steady_clock;
  bool all_have_rested = true;
  for (std::size_t i = 0; i < watched_rounds_.size(); i++) {
    const bool ran = watched_rounds_[i] % 2 == 1;
    if (ran && executor_.rounds[i].load(std::memory_order_acquire) == watched_rounds_[i])
      all_have_rested = false;
  }
  const std::uint64_t progressed = executor_.progress.load(std::memory_order_relaxed);
  const auto now = Clock::now();
  if (start || progressed != watched_progress_) {
    watched_progress_ = progressed;
    watched_since_ = now;
    watched_rounds_.clear();
    return;
  }
  const double waited = std::chrono::duration<double>(now - watched_since_).count();
  const auto is_over = [&](const auto& cluster) {
    return waited > cluster->launch->options.watchdog_s * timeout_scale();
  };
  if (!std::any_of(resident_.begin(), resident_.end(), is_over)) return;
  if (watched_rounds_.empty()) {
    for (const auto& round : executor_.rounds)
      watched_rounds_.push_back(round.load(std::memory_order_acquire));
    return;
  }
  if (!all_have_rested) return;
  for (const auto& cluster : resident_) {
    if (is_over(cluster)) {
      report_deadlock(*cluster, "no progress: every live thread waits or polls in vain (watchdog)",
                      "a flag that nobody sets, a launch it depends on that does not fit on the "
                      "device beside it, a dead peer; RUNGS_EMULATOR_WATCHDOG_S sets the patience");
    }
  }
}

void Worker::run() {
  this_worker = this;
  if (sanitizer::thread_sanitizer()) scheduler_fiber_ = __tsan_get_current_fiber();
  pthread_attr_t attributes;
  if (sanitizer::address_sanitizer() && pthread_getattr_np(pthread_self(), &attributes) == 0) {
    void* bottom = nullptr;
    pthread_attr_getstack(&attributes, &bottom, &scheduler_size_);
    scheduler_bottom_ = bottom;
    pthread_attr_destroy(&attributes);
  }
  unsigned idle_rounds = 0;
  std::atomic<std::uint64_t>& round = executor_.rounds[index_];
  round++;
  for (;;) {
    const std::uint64_t before = progress;
    for (std::size_t i = 0; i < resident_.size();) {
      Cluster& cluster = *resident_[i];
      cluster.rearm();
      drive(cluster);
      if (cluster.live == 0 || cluster.launch->aborted) {
        unload(i);
      } else {
        i++;
      }
    }
    if (take_work()) {
      executor_.progress.fetch_add(1, std::memory_order_relaxed);
      idle_rounds = 0;
      continue;
    }
    if (progress != before) {
      executor_.progress.fetch_add(1, std::memory_order_relaxed);
      idle_rounds = 0;
      if (!resident_.empty()) continue;
    }
    round++;
    bool go_on = true;
    const bool offered =
        executor_.offers.load(std::memory_order_acquire) > 0;  // but there was no room for it
    if (resident_.empty() && !offered) {
      for (int i = 0; i < 100 && executor_.offers.load(std::memory_order_acquire) == 0; i++)
        pause_processor();
      go_on = executor_.wait_for_work();
    } else {
      rest(++idle_rounds);
      if (idle_rounds >= kBusyRounds) check_watchdog(idle_rounds == kBusyRounds);
    }
    if (!go_on) break;
    round++;
  }
}

}  // namespace rungs::emulator
