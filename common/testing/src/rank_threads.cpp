#include <rungs/core/deadline.hpp>
#include <rungs/core/error.hpp>
#include <rungs/core/log.hpp>
#include <rungs/testing/ranks.hpp>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>

namespace rungs::testing {
namespace {

struct Joint {
  std::mutex mutex;
  std::condition_variable one_ended;
  int running = 0;
  std::vector<bool> ended;
};

RankOutcome run_one(int rank, const std::function<void(int)>& body) {
  log::set_rank(rank);
  try {
    body(rank);
    return {rank, true, {}};
  } catch (const std::exception& error) {
    return {rank, false, error.what()};
  } catch (...) {
    return {rank, false, "threw something that is no std::exception"};
  }
}

[[noreturn]] void abort_naming(const Joint& joint, const Deadline& deadline) {
  std::string who;
  for (std::size_t rank = 0; rank < joint.ended.size(); ++rank) {
    if (!joint.ended[rank]) who += concat(who.empty() ? "" : ", ", rank);
  }
  const std::string text =
      concat("run_threads: rank ", who, " still running after ", deadline.waited().count(),
             " s; a thread cannot be killed, so the process ends\n");
  std::fputs(text.c_str(), stderr);
  std::abort();
}

}  // namespace

std::vector<RankOutcome> run_threads(int ranks, const std::function<void(int rank)>& body,
                                     std::chrono::duration<double> limit) {
  RUNGS_REQUIRE(ranks >= 1, "run_threads: ranks must be at least 1, got ", ranks);
  const auto count = static_cast<std::size_t>(ranks);
  std::vector<RankOutcome> outcomes(count);
  Joint joint;
  joint.running = ranks;
  joint.ended.assign(count, false);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      RankOutcome outcome = run_one(static_cast<int>(i), body);
      const std::lock_guard lock(joint.mutex);
      outcomes[i] = std::move(outcome);
      joint.ended[i] = true;
      --joint.running;
      joint.one_ended.notify_one();
    });
  }
  const Deadline deadline = Deadline::after(limit);
  {
    std::unique_lock lock(joint.mutex);
    const bool all =
        joint.one_ended.wait_for(lock, deadline.remaining(), [&] { return joint.running == 0; });
    if (!all) abort_naming(joint, deadline);
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

std::string failures(const std::vector<RankOutcome>& outcomes) {
  std::string text;
  for (const RankOutcome& outcome : outcomes) {
    if (!outcome.ok) text += concat("rank ", outcome.rank, ": ", outcome.text, "\n");
  }
  return text;
}

}  // namespace rungs::testing
