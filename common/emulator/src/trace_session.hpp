#pragma once
/// @file trace_session.hpp
/// From the launch that a session chose to its trace.

#include <rungs/emulator/trace.hpp>

#include "launch_state.hpp"
#include "trace_recorder.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

namespace rungs::emulator::trace {

/// A launch that is being traced: its clusters run on several workers.
class LaunchTrace {
 public:
  LaunchTrace(Request request, std::shared_ptr<Session::State> session, const LaunchRequest& launch,
              const Options& options);
  /// A recorder for a cluster that begins.
  std::unique_ptr<Recorder> record(const Cluster& cluster);
  /// Takes what is recorded of a cluster that has ended.
  void add(std::unique_ptr<Recorder> recorder);
  /// The launch is over: hands the trace to the session.
  void finish(const std::string& report);

 private:
  const Request request_;
  const std::shared_ptr<Session::State> session_;
  std::atomic<std::int64_t> room_;
  std::mutex mutex_;  // of what follows
  Trace trace_;
  Counts counts_;
};

/// Null unless the session waits for this launch.
std::shared_ptr<LaunchTrace> choose(const LaunchRequest& launch, const Options& options);

}  // namespace rungs::emulator::trace
