// The progress thread: what is submitted while it is about to fall asleep is not overslept, and a
// link that was removed is not touched.

#include "detail/progress.hpp"

#include <rungs/core/deadline.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>

namespace rungs::transport::detail {
namespace {

std::optional<bootstrap::Lost> nobody_lost() { return std::nullopt; }

void wait_for(const std::function<bool()>& ready) {
  ASSERT_NO_THROW(
      wait_until(ready, Deadline::after(std::chrono::seconds(20)), [] { return "the thread"; }));
}

// Submits its only message right after the thread has looked and found nothing: the worst moment.
class LateSubmitter final : public Driven {
 public:
  explicit LateSubmitter(ProgressThread*& thread) : thread_(thread) {}
  bool advance() noexcept override {
    if (!submitted_ || done) return false;
    done = true;
    return true;
  }
  bool busy() noexcept override {
    const bool found = submitted_ && !done;
    if (!submitted_) {
      submitted_ = true;
      thread_->wake();
    }
    return found;
  }
  void lost(const bootstrap::Lost&) noexcept override {}
  std::atomic<bool> done = false;

 private:
  ProgressThread*& thread_;
  bool submitted_ = false;
};

TEST(Progress, DoesNotOversleepAMessage) {
  ProgressThread* address = nullptr;
  LateSubmitter link(address);
  ProgressThread thread(&nobody_lost, [] {});
  address = &thread;
  thread.add(link);
  thread.wake();
  wait_for([&] { return link.done.load(); });
  thread.remove(link);
}

// Always busy, never moving: the thread polls it, asks for losses and can be stopped.
class Waiting final : public Driven {
 public:
  bool advance() noexcept override {
    ++looks;
    return false;
  }
  bool busy() noexcept override { return true; }
  void lost(const bootstrap::Lost& rank) noexcept override { lost_rank = rank.rank; }
  std::atomic<int> looks = 0;
  std::atomic<int> lost_rank = -2;
};

TEST(Progress, TellsOfALossAndLetsGo) {
  std::atomic<bool> gone = false;
  Waiting link;
  Waiting other;
  ProgressThread thread(
      [&]() -> std::optional<bootstrap::Lost> {
        if (!gone) return std::nullopt;
        return bootstrap::Lost{3, "test"};
      },
      [] {});
  thread.add(link);
  thread.add(other);
  thread.wake();
  wait_for([&] { return link.looks > 10 && other.looks > 10; });
  EXPECT_EQ(link.lost_rank, -2);
  gone = true;
  wait_for([&] { return link.lost_rank == 3 && other.lost_rank == 3; });
  thread.remove(link);
  const int looks = link.looks;
  const int others = other.looks;
  wait_for([&] { return other.looks > others + 10; });
  EXPECT_EQ(link.looks, looks) << "a removed link is not touched";
  thread.remove(other);
}

}  // namespace
}  // namespace rungs::transport::detail
