#include "bootstrap/root_server.hpp"

#include <rungs/core/log.hpp>

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

namespace rungs::bootstrap::detail {
namespace {

using namespace std::chrono_literals;

constexpr auto kStageLimit = 10s;  // for a handshake, and for the registration after it
constexpr auto kFlushLimit = 2s;

Address wildcard_resolved(const RootServer::Setup& setup, int listener) {
  const Address bound = Address::of_socket(listener);
  return setup.listen.is_any() ? setup.reachable.with_port(bound.port()) : bound;
}

}  // namespace

RootServer::RootServer(const Setup& setup)
    : ranks_(setup.ranks),
      key_(setup.key),
      listener_(listen_on(setup.listen, "rendezvous")),
      address_(wildcard_resolved(setup, listener_.get())),
      name_(concat("rendezvous at ", address_.to_string())),
      deadline_(Deadline::after(std::chrono::duration<double>(setup.timeout_seconds))),
      give_up_(deadline_),
      registered_(static_cast<std::size_t>(setup.ranks)),
      thread_([this] { run(); }) {}

RootServer::~RootServer() {
  stop_.signal();
  thread_.join();
}

void RootServer::wait(const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  if (!ended_.wait_for(lock, deadline.remaining(), [this] { return has_ended_; }))
    RUNGS_THROW(kTimeout, name_, ": still waiting after ", deadline.waited().count(), " s");
  if (failure_) throw *failure_;
}

void RootServer::end(std::optional<Error> failure) {
  const std::lock_guard lock(mutex_);
  if (has_ended_) return;
  has_ended_ = true;
  failure_ = std::move(failure);
  ended_.notify_all();
}

void RootServer::run() noexcept {
  try {
    loop();
  } catch (const Error& error) {
    log::error(name_, ": ", error.message());
    end(error);
  } catch (const std::exception& error) {
    log::error(name_, ": ", error.what());
    end(Error(ErrorCode::kInternal, concat(name_, ": ", error.what()), __FILE__, __LINE__));
  }
  visitors_.clear();
  stop_listening(listener_);
}

// A root that failed goes on answering until it is destroyed: ranks that come late hear why.
void RootServer::loop() {
  while (true) {
    std::vector<pollfd> polled = poll_set();
    const std::size_t count = visitors_.size();
    const int ready = ::poll(polled.data(), polled.size(), poll_timeout());
    if (ready < 0 && errno != EINTR) RUNGS_THROW(kSystem, "poll: ", error_text(errno));
    if (ready > 0) {
      if (polled[0].revents != 0 && !flush_by_) {
        if (!welcomed_ && !failed_)
          fail_all(ErrorCode::kPeerLost, concat(name_, ": the root was stopped; ", missing()));
        flush_by_ = Deadline::after(kFlushLimit);
      }
      if (polled[1].revents != 0) accept_all();
      for (std::size_t i = 0; i < count; ++i) {
        if (polled[i + 2].revents != 0) advance(*visitors_[i]);
      }
    }
    drop_late();
    if (!welcomed_ && !failed_ && there_ == ranks_) welcome_all();
    if (!welcomed_ && !failed_ && give_up_.passed()) {
      const std::string who =
          least_patient_ < 0 ? "" : concat("; rank ", least_patient_, " waits no longer");
      fail_all(ErrorCode::kTimeout,
               concat(name_, ": waited ", deadline_.waited().count(), " s", who, "; ", missing()));
    }
    std::erase_if(visitors_, [](const auto& visitor) { return !visitor->fd; });
    if (welcomed_ && !flush_by_) flush_by_ = Deadline::after(kFlushLimit);
    const bool flushed = std::all_of(visitors_.begin(), visitors_.end(),
                                     [](const auto& visitor) { return visitor->out.empty(); });
    if (flush_by_ && (flushed || flush_by_->passed())) {
      if (welcomed_) end(std::nullopt);
      return;
    }
  }
}

std::vector<pollfd> RootServer::poll_set() const {
  std::vector<pollfd> polled;
  // A negative descriptor is skipped by poll().
  polled.push_back({flush_by_ ? -1 : stop_.fd(), POLLIN, 0});
  polled.push_back({accept_again_ || flush_by_ ? -1 : listener_.get(), POLLIN, 0});
  for (const auto& visitor : visitors_) {
    const bool writing = !visitor->out.empty();
    const short events = writing ? static_cast<short>(POLLOUT) : visitor->events;
    polled.push_back({visitor->fd.get(), events, 0});
  }
  return polled;
}

int RootServer::poll_timeout() const {
  int milliseconds = 60'000;
  if (!welcomed_ && !failed_) milliseconds = poll_milliseconds(give_up_, milliseconds);
  if (accept_again_) milliseconds = poll_milliseconds(*accept_again_, milliseconds);
  if (flush_by_) milliseconds = poll_milliseconds(*flush_by_, milliseconds);
  for (const auto& visitor : visitors_) {
    if (visitor->stage != Visitor::Stage::kWaiting)
      milliseconds = poll_milliseconds(visitor->deadline, milliseconds);
  }
  return milliseconds;
}

void RootServer::accept_all() {
  int error = 0;
  while (Descriptor fd = accept_from(listener_.get(), error)) {
    const std::string from = Address::of_peer(fd.get()).to_string();
    auto visitor = std::make_unique<Visitor>(
        Visitor{std::move(fd), from, Handshake::server(key_, kRoot), Deadline::after(kStageLimit)});
    visitor->events = POLLIN;
    visitors_.push_back(std::move(visitor));
  }
  if (error != 0) {
    log::warn(name_, ": cannot accept a connection: ", error_text(error), "; tried again");
    accept_again_ = Deadline::after(50ms);
  }
}

void RootServer::drop_late() {
  if (accept_again_ && accept_again_->passed()) accept_again_.reset();
  for (const auto& visitor : visitors_) {
    if (visitor->stage == Visitor::Stage::kWaiting || !visitor->deadline.passed()) continue;
    const std::string awaited = visitor->stage == Visitor::Stage::kHandshake
                                    ? visitor->handshake.awaited()
                                    : "the rest of the conversation";
    drop(*visitor, concat("waited ", visitor->deadline.waited().count(), " s for ", awaited));
  }
}

}  // namespace rungs::bootstrap::detail
