#pragma once
/// @file launch_kernel.hpp
/// Running kernels on an Executor without the gpu library above it.

#include <rungs/emulator/executor.hpp>
#include <rungs/emulator/options.hpp>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>

namespace rungs::emulator::testing {

/// The end of a launch, to wait for.
class Completion {
 public:
  Executor::Done callback() {
    return [this](std::string report) {
      const std::lock_guard lock(mutex_);
      report_ = std::move(report);
      done_ = true;
      changed_.notify_all();
    };
  }
  std::string wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_; });
    return report_;
  }
  /// Whether it came in that time.
  bool wait_for(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [this] { return done_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::string report_;
};

template <class... P, class... A>
std::shared_ptr<LaunchRequest> make_request(std::string name, const gpu::LaunchConfig& config,
                                            void (*kernel)(P...), A... arguments) {
  auto request = std::make_shared<LaunchRequest>();
  request->name = std::move(name);
  request->config = config;
  request->kernel = reinterpret_cast<const void*>(kernel);
  request->invoke = gpu::detail::invoke_of<P...>();
  [&](std::remove_const_t<P>... values) {
    void* pointers[] = {static_cast<void*>(&values)..., nullptr};
    const std::size_t sizes_bytes[] = {sizeof(P)..., 0};
    const gpu::KernelArgs copied{pointers, sizes_bytes, static_cast<int>(sizeof...(P))};
    request->parameters = ParameterBlock(copied);
  }(static_cast<std::remove_const_t<P>>(arguments)...);
  return request;
}

/// Runs the kernel to its end; returns its report, empty if it went well.
template <class... P, class... A>
std::string run(Executor& executor, const gpu::LaunchConfig& config, void (*kernel)(P...),
                A... arguments) {
  const auto request = make_request("kernel_under_test", config, kernel, arguments...);
  executor.check(*request);
  Completion completion;
  executor.submit(request, completion.callback());
  return completion.wait();
}

/// Sets the emulator's options for a scope.
class ScopedOptions {
 public:
  explicit ScopedOptions(const Options& options) : before_(emulator::options()) {
    set_options(options);
  }
  ~ScopedOptions() { set_options(before_); }
  ScopedOptions(const ScopedOptions&) = delete;
  ScopedOptions& operator=(const ScopedOptions&) = delete;

 private:
  Options before_;
};

}  // namespace rungs::emulator::testing
