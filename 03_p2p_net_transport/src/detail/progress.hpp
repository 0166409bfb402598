#pragma once
/// @file progress.hpp
/// One thread a context that moves the pieces of all its links.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <rungs/bootstrap/group.hpp>

namespace rungs::transport::detail {

/// What the thread drives. Called by that thread only.
class Driven {
 public:
  virtual ~Driven() = default;
  /// Moves what can be moved without waiting. @return whether anything was
  virtual bool advance() noexcept = 0;
  /// Whether something is pending.
  virtual bool busy() noexcept = 0;
  /// A rank of the group is gone.
  virtual void lost(const bootstrap::Lost& lost) noexcept = 0;
};

class ProgressThread {
 public:
  /// @param lost asked about once a millisecond while something is pending
  /// @param begin called once by the thread
  ProgressThread(std::function<std::optional<bootstrap::Lost>()> lost, std::function<void()> begin);
  ~ProgressThread();
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  void add(Driven& driven);
  /// When it returns, the thread does not touch `driven` any more.
  void remove(Driven& driven) noexcept;
  /// Something was submitted. Any thread.
  void wake();

 private:
  void run();
  bool turn(bool look_for_loss);
  void sleep_until_woken(std::uint64_t seen);

  std::function<std::optional<bootstrap::Lost>()> lost_;
  std::function<void()> begin_;
  std::mutex links_mutex_;
  std::vector<Driven*> links_;
  bool busy_ = false;              // of the last turn; the thread's own
  std::atomic<int> visitors_ = 0;  // threads that want links_mutex_: the thread stands back
  std::mutex wake_mutex_;
  std::condition_variable woken_;
  std::atomic<std::uint64_t> wakes_ = 0;  // written under wake_mutex_
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace rungs::transport::detail
