#pragma once
/// @file executor.hpp
/// The emulated device's engine: OS worker threads that run the blocks of all launches in flight.
///
/// Threads of a block are fibers of one worker; a worker holds blocks of several launches and turns
/// to another when all it holds is blocked or spinning. Residency is limited as on an SM (2048
/// threads, 32 blocks, 227 KB of shared memory each), so kernels that wait for each other must fit
/// on the device together, as on a GPU.

#include <rungs/config.hpp>
#include <rungs/gpu/launch.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace rungs::emulator {

struct ExecutorOptions {
  int sm_count = 4;
  int workers = 1;  ///< OS threads
};

/// An owned copy of a launch's parameters, each aligned to 64 bytes (tensor maps need it).
class ParameterBlock {
 public:
  ParameterBlock() = default;
  explicit ParameterBlock(const gpu::KernelArgs& arguments);
  ParameterBlock(ParameterBlock&&) noexcept = default;
  ParameterBlock& operator=(ParameterBlock&&) noexcept = default;
  /// Addresses of the copies, in order: what gpu::Invoke takes.
  [[nodiscard]] void** pointers() const { return pointers_.get(); }

 private:
  struct Free {
    void operator()(void* memory) const noexcept;
  };
  std::unique_ptr<void, Free> storage_;
  std::unique_ptr<void*[]> pointers_;
};

/// One kernel launch, immutable and shared: a graph submits the same request at every replay.
struct LaunchRequest {
  std::string name;
  gpu::LaunchConfig config;
  const void* kernel = nullptr;
  gpu::Invoke invoke = nullptr;
  ParameterBlock parameters;
};

/// The end of a launch, as griddepcontrol.wait of the launch after it waits for it.
class Prerequisite {
 public:
  /// All that the launch has written is visible to whoever sees it over.
  void end();
  [[nodiscard]] bool over();

 private:
  std::atomic<bool> over_{false};
  char token_ = 0;
};

/// How a launch takes part in programmatic dependent launch.
struct Dependence {
  /// Called at most once, from inside the launch, when all its blocks have executed
  /// griddepcontrol.launch_dependents or ended. It may call submit().
  std::function<void()> release;
  std::shared_ptr<Prerequisite> prerequisite;  ///< null: there is nothing to wait for
};

/// What happened on an executor since it was made. In place of times, which mean nothing for a GPU.
struct Counters {
  std::uint64_t launches = 0;
  std::uint64_t blocks = 0;
  std::uint64_t threads = 0;
  std::uint64_t async_bytes = 0;  ///< moved by TMA
  std::uint64_t mma_flops = 0;
  std::uint64_t barriers =
      0;  ///< block-wide, named and cluster barriers completed, and mbarrier phases
  std::uint64_t fiber_switches = 0;
};

/// Runs launches and host work. Thread-safe. Order between submissions is the caller's business
/// (streams).
class Executor {
 public:
  /// Called once when a launch is over, from a worker thread; empty report: success. It may call
  /// submit().
  using Done = std::function<void(std::string report)>;

  /// @throws Error kInvalidArgument for a negative or absurd count; kSystem if threads cannot be
  ///         started
  explicit Executor(const ExecutorOptions& options = {});
  /// Waits for everything submitted, then ends the workers.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// @throws Error kInvalidArgument or kUnsupported naming the value that no launch on this device
  ///         can have
  void check(const LaunchRequest& request) const;
  /// Queues a checked launch and returns.
  void submit(std::shared_ptr<const LaunchRequest> request, Done done, Dependence dependence = {});
  /// Queues host work (copies, fills) that a worker runs between blocks, then `done`. `work` must
  /// not wait for anything else on this executor.
  void submit_host(std::function<void()> work, std::function<void()> done);

  [[nodiscard]] int sm_count() const;
  [[nodiscard]] int worker_count() const;
  [[nodiscard]] Counters counters() const;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace rungs::emulator
