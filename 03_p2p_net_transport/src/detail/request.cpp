#include "detail/request.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace rungs::transport {
namespace detail {

std::string RequestState::describe() const {
  const std::size_t known = total_bytes.load();
  const std::size_t of = is_send || known == 0 ? size_bytes : known;
  return concat(is_send ? "send" : "receive", " of message ", message, is_send ? " to" : " from",
                " rank ", peer, " by ", to_string(kind), ": ", passed_bytes.load(), " of ",
                is_send || known != 0 ? "" : "at most ", of, " bytes had passed");
}

void RequestState::settle(Phase phase) {
  const std::lock_guard lock(mutex_);
  phase_.store(phase, std::memory_order_release);
  settled_.notify_all();
}

void RequestState::finish() { settle(Phase::kDone); }

void RequestState::fail(ErrorCode code, const std::string& why) {
  code_ = code;
  text_ = concat(describe(), ": ", why);
  settle(Phase::kFailed);
}

void RequestState::throw_if_failed() const {
  if (phase() == Phase::kFailed) throw Error(code_, text_, __FILE__, __LINE__);
}

void RequestState::wait(const Deadline& deadline) {
  constexpr int kSpins = 64;  // a tiny message's answer; then the core is better used by others
  constexpr int kYields = 16;
  for (int i = 0; i < kSpins + kYields && phase() == Phase::kPending; ++i) {
    if (i >= kSpins) std::this_thread::yield();
  }
  if (phase() == Phase::kPending) {
    std::unique_lock lock(mutex_);
    const auto remaining = std::clamp<std::chrono::duration<double>>(
        deadline.remaining(), std::chrono::seconds(0), std::chrono::hours(24));
    settled_.wait_for(lock, remaining, [this] { return phase() != Phase::kPending; });
  }
  throw_if_failed();
  if (phase() == Phase::kPending)
    RUNGS_THROW(kTimeout, describe(), ": waited ", deadline.waited().count(), " s");
}

}  // namespace detail

bool Request::test() {
  RUNGS_REQUIRE(state_ != nullptr, "request: it is empty; take it from send() or receive()");
  state_->throw_if_failed();
  return state_->phase() == detail::RequestState::Phase::kDone;
}

void Request::wait(const Deadline& deadline) {
  RUNGS_REQUIRE(state_ != nullptr, "request: it is empty; take it from send() or receive()");
  state_->wait(deadline);
}

std::size_t Request::size_bytes() const {
  RUNGS_REQUIRE(state_ != nullptr && state_->phase() == detail::RequestState::Phase::kDone,
                "size_bytes: the request is not done; wait() for it first");
  return state_->is_send ? state_->size_bytes : state_->total_bytes.load();
}

}  // namespace rungs::transport
