#pragma once
/// What the tests of rungs::bootstrap share.

#include <rungs/bootstrap/group.hpp>
#include <rungs/core/error.hpp>
#include <rungs/core/log.hpp>
#include <rungs/testing/errors.hpp>
#include <rungs/testing/ranks.hpp>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <functional>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace rungs::bootstrap::test {

using namespace std::chrono_literals;
using rungs::testing::failures;
using rungs::testing::run_processes;
using rungs::testing::run_threads;

/// Entries of a folder of /proc/self; "fd" counts its own reading, every time.
inline long count_of(const char* folder) {
  const std::filesystem::directory_iterator entries(std::string("/proc/self/") + folder);
  return std::distance(begin(entries), end(entries));
}

/// Every test of this stage also checks that it leaves no thread and no descriptor behind.
class BootstrapTest : public ::testing::Test {
 protected:
  void SetUp() override {
    log::set_sink([this](log::Level level, const std::string& line) {
      const std::lock_guard lock(mutex_);
      lines_.push_back(std::string(log::to_string(level)) + " " + line);
    });
    // ThreadSanitizer starts a thread of its own with the first one.
    std::thread([] {}).join();
    fds_ = count_of("fd");
    threads_ = count_of("task");
  }
  void TearDown() override {
    // A joined thread's entry may outlast the join for a moment.
    for (int i = 0; i < 200 && count_of("task") > threads_; ++i) std::this_thread::sleep_for(5ms);
    EXPECT_EQ(count_of("task"), threads_) << "threads left behind";
    EXPECT_EQ(count_of("fd"), fds_) << "descriptors left behind";
    log::set_sink({});
  }
  /// Whether a line of this level and with this text was logged.
  bool logged(const std::string& level, const std::string& text) {
    const std::lock_guard lock(mutex_);
    return std::any_of(lines_.begin(), lines_.end(), [&](const std::string& line) {
      return line.starts_with(level) && line.find(text) != std::string::npos;
    });
  }
  std::string log_text() {
    const std::lock_guard lock(mutex_);
    std::string all;
    for (const std::string& line : lines_) all += line + "\n";
    return all;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
  long fds_ = 0;
  long threads_ = 0;
};

/// An id in memory that forked ranks share: rank 0 makes the root and publishes it.
class SharedId {
 public:
  SharedId() {
    void* memory =
        ::mmap(nullptr, sizeof(Content), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    content_ = new (memory) Content;
  }
  ~SharedId() { ::munmap(content_, sizeof(Content)); }
  SharedId(const SharedId&) = delete;
  SharedId& operator=(const SharedId&) = delete;
  void publish(const UniqueId& id) {
    content_->id = id;
    content_->there.store(1, std::memory_order_release);
  }
  [[nodiscard]] UniqueId wait() const {
    wait_until([this] { return content_->there.load(std::memory_order_acquire) != 0; },
               Deadline::after(20s), [] { return std::string("the root's id"); });
    return content_->id;
  }
  /// A counter that ranks share, for tests that need an order.
  std::atomic<int>& counter() { return content_->counter; }

 private:
  struct Content {
    std::atomic<int> there{0};
    std::atomic<int> counter{0};
    UniqueId id;
  };
  Content* content_;
};

/// Ranks as threads over one root.
inline std::vector<rungs::testing::RankOutcome> run_group(
    int ranks, const GroupOptions& options, const std::function<void(Group&)>& body,
    const std::string& address = "127.0.0.1") {
  Root root({.ranks = ranks, .interface_or_address = address});
  return run_threads(ranks, [&](int rank) {
    Group group(root.id(), rank, ranks, options);
    body(group);
  });
}

/// Ranks as processes; rank 0's holds the root.
inline std::vector<rungs::testing::RankOutcome> run_group_processes(
    int ranks, const GroupOptions& options, const std::function<void(Group&)>& body) {
  SharedId shared;
  return run_processes(ranks, [&](int rank) {
    std::optional<Root> root;
    if (rank == 0) {
      root.emplace(RootOptions{.ranks = ranks, .interface_or_address = "127.0.0.1"});
      shared.publish(root->id());
    }
    Group group(shared.wait(), rank, ranks, options);
    body(group);
  });
}

using testing::error_of;
using testing::has;

/// In a forked rank, where EXPECT is not heard.
inline void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(concat("expected: ", what));
}
/// Throws unless `text` (from error_of) has all parts.
inline void require_has(const std::string& text, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts)
    require(has(text, part), concat("'", part, "' in '", text, "'"));
}

inline std::vector<std::byte> bytes_of(std::size_t count, unsigned seed) {
  std::vector<std::byte> bytes(count);
  for (std::byte& b : bytes) {
    seed = seed * 1664525u + 1013904223u;
    b = std::byte(seed >> 24);
  }
  return bytes;
}

}  // namespace rungs::bootstrap::test
