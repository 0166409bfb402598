#include "bootstrap/service.hpp"

#include "bootstrap/unix_socket.hpp"

#include <rungs/core/error.hpp>
#include <rungs/core/log.hpp>

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

namespace rungs::bootstrap::detail {
namespace {

using namespace std::chrono_literals;

// Somebody who connects and says nothing must not hold a descriptor for ever.
constexpr auto kHandshakeLimit = 10s;
constexpr auto kGoodbyeLimit = 1s;

}  // namespace

Service::Service(int rank, int size, const Key& key, Descriptor listener, Descriptor unix_listener)
    : rank_(rank),
      size_(size),
      key_(key),
      mailbox_(size),
      listener_(std::move(listener)),
      unix_listener_(std::move(unix_listener)),
      unreachable_(static_cast<std::size_t>(size)),
      thread_([this] { run(); }) {}

Service::~Service() {
  if (!thread_.joinable()) return;
  leave(entered_, 0);
}

void Service::post(std::function<void()> task) {
  {
    const std::lock_guard lock(tasks_mutex_);
    tasks_.push_back(std::move(task));
  }
  wake_.signal();
}

void Service::run_tasks() {
  wake_.clear();
  std::vector<std::function<void()>> tasks;
  {
    const std::lock_guard lock(tasks_mutex_);
    tasks.swap(tasks_);
  }
  for (const std::function<void()>& task : tasks) task();
}

void Service::add_control(Descriptor fd, int peer) {
  auto connection = std::make_shared<Connection>();
  connection->fd = std::move(fd);
  watch(std::move(connection), peer, Purpose::kControl);
}

void Service::watch(SharedConnection connection, int peer, Purpose purpose) {
  post([this, connection = std::move(connection), peer, purpose] {
    open_link(connection, peer, purpose, true);
  });
}

void Service::set_addresses(std::vector<Address> addresses) {
  post([this, addresses = std::move(addresses)] {
    addresses_ = addresses;
    heal_soon();
  });
}

void Service::leave(std::uint64_t operations, double linger_seconds) noexcept {
  try {
    std::this_thread::sleep_for(std::chrono::duration<double>(linger_seconds));
    post([this, operations] {
      say_goodbye(operations);
      stop_by_ = Deadline::after(kGoodbyeLimit);
    });
    thread_.join();
  } catch (const std::exception& error) {
    log::error("rank ", rank_, " could not leave its group cleanly: ", error.what());
  }
}

void Service::run() noexcept {
  log::set_rank(rank_);
  try {
    loop();
  } catch (const std::exception& error) {
    log::error("bootstrap: the control thread failed: ", error.what());
    mailbox_.lose(
        {ErrorCode::kInternal, {rank_, concat("its control thread failed: ", error.what())}});
    // What follows closes every connection without a goodbye, which tells the others.
  }
  links_.clear();
  pending_.clear();
  stop_listening(listener_);
  stop_listening(unix_listener_);
}

void Service::loop() {
  while (true) {
    std::vector<pollfd> polled = poll_set();
    const std::size_t pending = pending_.size();
    const std::size_t links = links_.size();
    const int ready = ::poll(polled.data(), polled.size(), poll_timeout());
    if (ready < 0 && errno != EINTR) RUNGS_THROW(kSystem, "poll: ", error_text(errno));
    if (ready > 0) {
      std::size_t next = 0;
      if (polled[next++].revents != 0) run_tasks();
      if (polled[next++].revents != 0) accept_all(listener_, false);
      if (polled[next++].revents != 0) accept_all(unix_listener_, true);
      for (std::size_t i = 0; i < pending; ++i) {
        if (polled[next++].revents != 0) advance(*pending_[i]);
      }
      for (std::size_t i = 0; i < links; ++i) {
        const short events = polled[next++].revents;
        if ((events & POLLOUT) != 0) flush(*links_[i]);
        if ((events & ~POLLOUT) != 0) read_link(*links_[i]);
      }
    }
    drop_late();
    if (heal_at_ && heal_at_->passed()) heal();
    std::erase_if(pending_, [](const auto& entry) { return !entry->fd; });
    std::erase_if(links_, [](const auto& entry) { return entry->closed; });
    if (stop_by_ && all_flushed()) shut_links();
    if (stop_by_ && (all_acknowledged() || stop_by_->passed())) break;
  }
}

std::vector<pollfd> Service::poll_set() {
  std::vector<pollfd> polled;
  // A negative descriptor is skipped by poll().
  const bool accepting = !accept_again_ && !stop_by_;
  polled.push_back({wake_.fd(), POLLIN, 0});
  polled.push_back({accepting ? listener_.get() : -1, POLLIN, 0});
  polled.push_back({accepting ? unix_listener_.get() : -1, POLLIN, 0});
  for (const auto& entry : pending_) polled.push_back({entry->fd.get(), entry->events, 0});
  for (const auto& link : links_) {
    const short writing = link->out.empty() ? 0 : POLLOUT;
    polled.push_back({link->fd(), static_cast<short>(POLLIN | writing), 0});
  }
  return polled;
}

int Service::poll_timeout() const {
  int milliseconds = 60'000;
  // Nothing wakes poll() when the last byte is acknowledged.
  if (stop_by_ && all_flushed()) milliseconds = 1;
  for (const auto& entry : pending_)
    milliseconds = poll_milliseconds(entry->deadline, milliseconds);
  if (accept_again_) milliseconds = poll_milliseconds(*accept_again_, milliseconds);
  if (heal_at_) milliseconds = poll_milliseconds(*heal_at_, milliseconds);
  if (stop_by_) milliseconds = poll_milliseconds(*stop_by_, milliseconds);
  return milliseconds;
}

void Service::accept_all(const Descriptor& listener, bool is_unix) {
  if (stop_by_) return;
  int error = 0;
  while (Descriptor fd = accept_from(listener.get(), error)) {
    const std::string other =
        is_unix ? "a process of this host" : Address::of_peer(fd.get()).to_string();
    if (is_unix && !same_user(fd.get())) {
      log::warn("bootstrap: dropped a connection from ", other, ": it runs as another user");
      continue;
    }
    auto entry = std::make_unique<Pending>(
        Pending{std::move(fd), Handshake::server(key_, rank_), Deadline::after(kHandshakeLimit)});
    entry->other = other;
    entry->events = POLLIN;
    pending_.push_back(std::move(entry));
    advance(*pending_.back());
  }
  if (error != 0) {
    log::warn("bootstrap: cannot accept a connection: ", error_text(error), "; tried again");
    accept_again_ = Deadline::after(50ms);
  }
}

void Service::advance(Pending& pending) {
  if (!pending.fd) return;
  if (pending.connecting) {
    const int error = connect_result(pending.fd.get());
    if (error == EINPROGRESS) return;
    if (error != 0) return drop(pending, error_text(error));
    pending.connecting = false;
  }
  switch (pending.handshake.advance(pending.fd.get())) {
    case Handshake::Progress::kWantRead:
      pending.events = POLLIN;
      return;
    case Handshake::Progress::kWantWrite:
      pending.events = POLLOUT;
      return;
    case Handshake::Progress::kFailed:
      return drop(pending, pending.handshake.failure());
    case Handshake::Progress::kDone:
      return established(pending);
  }
}

void Service::established(Pending& pending) {
  const bool outgoing = pending.target >= 0;
  const int peer = outgoing ? pending.target : pending.handshake.from();
  const Purpose purpose = outgoing ? Purpose::kControl : pending.handshake.purpose();
  const bool known_purpose =
      purpose == Purpose::kControl || purpose == Purpose::kData || purpose == Purpose::kFd;
  if (peer < 0 || peer >= size_ || !known_purpose)
    return drop(pending, concat("it calls itself rank ", peer, " of ", size_));
  auto connection = std::make_shared<Connection>();
  connection->fd = std::move(pending.fd);
  open_link(std::move(connection), peer, purpose, outgoing);
}

void Service::drop(Pending& pending, const std::string& reason) {
  pending.fd.reset();
  if (pending.target < 0) {
    // A member that leaves while it connects is no stranger.
    const auto level = pending.handshake.vanished() ? log::Level::kDebug : log::Level::kWarn;
    if (!log::enabled(level)) return;
    log::write(level, concat("bootstrap: dropped a connection from ", pending.other, ": ", reason));
    return;
  }
  // The neighbour behind a gap is not there either; its own neighbours will say why.
  log::debug("bootstrap: rank ", pending.target, " cannot be reached: ", reason);
  unreachable_[static_cast<std::size_t>(pending.target)] = true;
  heal_soon();
}

void Service::drop_late() {
  if (accept_again_ && accept_again_->passed()) accept_again_.reset();
  for (const auto& entry : pending_) {
    if (!entry->fd || !entry->deadline.passed()) continue;
    drop(*entry, concat("waited ", entry->deadline.waited().count(), " s for ",
                        entry->handshake.awaited()));
  }
}

}  // namespace rungs::bootstrap::detail
