#include "bootstrap/mailbox.hpp"

namespace rungs::bootstrap::detail {

Mailbox::Mailbox(int ranks)
    : collective_(static_cast<std::size_t>(ranks)),
      inbound_(static_cast<std::size_t>(ranks)),
      left_(static_cast<std::size_t>(ranks)) {}

void Mailbox::deliver(int from, Frame&& frame) {
  const std::lock_guard lock(mutex_);
  const std::pair key(from, frame.header.operation);
  if (frame.header.type == FrameType::kMessage) {
    messages_[key].push_back(std::move(frame));
  } else if (frame.header.type == FrameType::kFd) {
    fds_[key].push_back(std::move(frame));
  } else {
    collective_[static_cast<std::size_t>(from)].push_back(std::move(frame));
  }
  changed_.notify_all();
}

void Mailbox::inbound_opened(int from) {
  const std::lock_guard lock(mutex_);
  ++inbound_[static_cast<std::size_t>(from)];
}

void Mailbox::inbound_closed(int from) {
  const std::lock_guard lock(mutex_);
  --inbound_[static_cast<std::size_t>(from)];
  changed_.notify_all();
}

bool Mailbox::leave(int rank, std::uint64_t operations) {
  const std::lock_guard lock(mutex_);
  std::optional<std::uint64_t>& left = left_[static_cast<std::size_t>(rank)];
  if (left) return false;
  left = operations;
  changed_.notify_all();
  return true;
}

bool Mailbox::lose(const News& news) {
  const std::lock_guard lock(mutex_);
  if (news_owner_) return false;
  news_owner_ = std::make_unique<const News>(news);
  news_.store(news_owner_.get(), std::memory_order_release);
  lost_event_.signal();
  changed_.notify_all();
  return true;
}

void Mailbox::answer_where(std::uint64_t query, std::vector<Whereabouts> all) {
  const std::lock_guard lock(mutex_);
  where_.emplace(query, std::move(all));
  changed_.notify_all();
}

// What has arrived is handed out even when the group is broken by now: it was sent before.
Arrival Mailbox::wait(std::unique_lock<std::mutex>& lock, const Ready& ready, const Ready& left,
                      const Deadline& deadline) {
  while (true) {
    if (ready()) return Arrival::kReady;
    if (news() != nullptr) return Arrival::kLost;
    if (left()) return Arrival::kLeft;
    if (deadline.passed()) return Arrival::kTimeout;
    changed_.wait_for(lock, deadline.remaining());
  }
}

Arrival Mailbox::wait_collective(int from, std::uint64_t operation, const Deadline& deadline,
                                 Frame& frame) {
  std::unique_lock lock(mutex_);
  std::deque<Frame>& queue = collective_[static_cast<std::size_t>(from)];
  const auto somebody_left = [&] {
    for (std::size_t rank = 0; rank < left_.size(); ++rank) {
      if (!left_[rank] || *left_[rank] >= operation) continue;
      who_left_ = static_cast<int>(rank);
      return true;
    }
    return false;
  };
  const Arrival arrival = wait(
      lock, [&] { return !queue.empty(); }, somebody_left, deadline);
  if (arrival == Arrival::kReady) {
    frame = std::move(queue.front());
    queue.pop_front();
  }
  return arrival;
}

Arrival Mailbox::wait_message(FrameType type, int from, std::uint64_t tag, const Deadline& deadline,
                              Frame& frame) {
  std::unique_lock lock(mutex_);
  auto& queues = type == FrameType::kFd ? fds_ : messages_;
  const std::pair key(from, tag);
  const auto sender = static_cast<std::size_t>(from);
  // After a goodbye a connection may still hold frames: only its end says that there are no more.
  const auto no_more = [&] {
    who_left_ = from;
    return left_[sender].has_value() && inbound_[sender] == 0;
  };
  const Arrival arrival = wait(
      lock, [&] { return queues.find(key) != queues.end(); }, no_more, deadline);
  if (arrival == Arrival::kReady) {
    const auto queue = queues.find(key);
    frame = std::move(queue->second.front());
    queue->second.pop_front();
    if (queue->second.empty()) queues.erase(queue);
  }
  return arrival;
}

void Mailbox::wait_gone(int rank, const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  const auto gone = [&] { return left_[static_cast<std::size_t>(rank)].has_value(); };
  (void)wait(
      lock, gone, [] { return false; }, deadline);
}

std::optional<std::vector<Whereabouts>> Mailbox::wait_where(std::uint64_t query,
                                                            const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  const auto answered = [&] { return where_ && where_->first == query; };
  if (wait(
          lock, answered, [] { return false; }, deadline) != Arrival::kReady)
    return std::nullopt;
  return where_->second;
}

std::size_t Mailbox::unexpected_from(int from) {
  const std::lock_guard lock(mutex_);
  std::size_t count = 0;
  for (const auto& [key, queue] : messages_) {
    if (key.first == from) count += queue.size();
  }
  return count;
}

std::optional<std::uint64_t> Mailbox::left_after(int rank) {
  const std::lock_guard lock(mutex_);
  return left_[static_cast<std::size_t>(rank)];
}

}  // namespace rungs::bootstrap::detail
