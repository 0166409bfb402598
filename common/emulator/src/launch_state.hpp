#pragma once
/// @file launch_state.hpp
/// One launch in flight.

#include <rungs/emulator/executor.hpp>
#include <rungs/emulator/options.hpp>

#include "residency.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace rungs::emulator::trace {
class LaunchTrace;
}

namespace rungs::emulator {

struct Launch {
  std::shared_ptr<const LaunchRequest> request;
  Executor::Done done;
  Options options;
  std::shared_ptr<trace::LaunchTrace> trace;  // null: not traced
  unsigned threads_per_block = 0;
  unsigned blocks_per_cluster = 0;
  std::uint64_t cluster_count = 0;
  // Guarded by the executor's mutex:
  std::uint64_t next_cluster = 0;
  std::uint64_t unfinished_clusters = 0;  // 0: over
  std::vector<Slot> reserved;  // cooperative: room taken for clusters that no worker has yet

  Dependence dependence;
  std::atomic<std::uint64_t> untriggered_blocks{0};  // have not released dependents nor ended
  std::atomic<bool> triggers{false};                 // a block has released dependents by itself

  std::atomic<bool> aborted{false};
  std::mutex report_mutex;
  std::string report;  // the first failure

  // TSan's tokens: submission before the first thread, every thread's end before completion.
  char start_token = 0;
  char end_token = 0;

  [[nodiscard]] const char* name() const { return request->name.c_str(); }

  /// Keeps the first report and stops the launch's threads at their next switch.
  void fail(const std::string& text) {
    {
      const std::lock_guard lock(report_mutex);
      if (report.empty()) report = text;
    }
    aborted.store(true, std::memory_order_release);
  }
};

}  // namespace rungs::emulator
