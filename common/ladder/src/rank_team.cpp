#include <rungs/core/error.hpp>
#include <rungs/core/log.hpp>
#include <rungs/ladder/rank_team.hpp>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace rungs::ladder {

struct RankTeam::State {
  std::mutex mutex;
  std::condition_variable changed;
  unsigned long long round = 0;  // counts calls of run()
  int running = 0;               // threads that have not ended this round
  bool stopping = false;
  const std::function<void(int rank)>* body = nullptr;  // of this round
  std::exception_ptr first_error;
  int first_error_rank = -1;
  std::vector<std::thread> threads;

  void work(int rank) {
    log::set_rank(rank);
    unsigned long long done = 0;
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return stopping || round != done; });
      if (stopping) return;
      done = round;
      const std::function<void(int rank)>& task = *body;
      lock.unlock();
      std::exception_ptr error;
      try {
        task(rank);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      if (error && !first_error) {
        first_error = error;
        first_error_rank = rank;
      }
      if (--running == 0) changed.notify_all();
    }
  }

  void stop() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    changed.notify_all();
    for (std::thread& thread : threads) thread.join();
  }
};

RankTeam::RankTeam(int ranks) : state_(std::make_unique<State>()) {
  RUNGS_REQUIRE(ranks >= 1 && ranks <= 1024, "a team has 1 to 1024 ranks, not ", ranks);
  try {
    for (int rank = 0; rank < ranks; ++rank) {
      state_->threads.emplace_back([this, rank] { state_->work(rank); });
    }
  } catch (const std::system_error& error) {
    state_->stop();
    RUNGS_THROW(kSystem, "cannot start a thread for rank ", state_->threads.size(), " of ", ranks,
                ": ", error.what());
  }
}

RankTeam::~RankTeam() { state_->stop(); }

int RankTeam::size() const noexcept { return static_cast<int>(state_->threads.size()); }

void RankTeam::run(const std::function<void(int rank)>& body) {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  RUNGS_REQUIRE(state.running == 0, "a RankTeam runs one thing at a time");
  state.body = &body;
  state.first_error = nullptr;
  state.running = size();
  ++state.round;
  state.changed.notify_all();
  state.changed.wait(lock, [&] { return state.running == 0; });
  if (!state.first_error) return;
  try {
    std::rethrow_exception(state.first_error);
  } catch (const Error& error) {
    throw Error(error.code(), concat("rank ", state.first_error_rank, ": ", error.message()),
                __FILE__, __LINE__);
  }
}

}  // namespace rungs::ladder
