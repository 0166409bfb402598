// What the control threads tell each other.

#include "bootstrap/service.hpp"

#include "bootstrap/bytes.hpp"

#include <rungs/core/error.hpp>
#include <rungs/core/log.hpp>

#include <poll.h>

#include <chrono>
#include <utility>

namespace rungs::bootstrap::detail {
namespace {

constexpr auto kHealLimit = std::chrono::seconds(5);
// Ranks often leave together: a gap is closed only if this rank is still there after a moment.
constexpr auto kHealDelay = std::chrono::milliseconds(20);

}  // namespace

std::vector<std::byte> Service::encode_news(const News& news) {
  ByteWriter out;
  out.number(std::int32_t(news.code)).number(std::int32_t(news.lost.rank)).text(news.lost.reason);
  return out.take();
}

std::vector<std::byte> Service::encode_bye(int rank, std::uint64_t operations) {
  ByteWriter out;
  out.number(std::int32_t(rank)).number(operations);
  return out.take();
}

void Service::tell(const Link* except, FrameType type, const std::vector<std::byte>& payload) {
  for (const auto& link : links_) {
    if (link->purpose == Purpose::kControl && link.get() != except) queue(*link, type, payload);
  }
}

void Service::spread(const News& news) noexcept {
  try {
    if (!mailbox_.lose(news)) return;
    post([this, payload = encode_news(news)] { tell(nullptr, FrameType::kNews, payload); });
  } catch (const std::exception& error) {
    log::error("bootstrap: could not tell the other ranks '", news.lost.reason,
               "': ", error.what());
  }
}

void Service::hear(Link& from, const Frame& frame) {
  ByteReader in(frame.payload);
  if (frame.header.type == FrameType::kNews) {
    News news;
    news.code = ErrorCode(in.number<std::int32_t>());
    news.lost.rank = in.number<std::int32_t>();
    news.lost.reason = in.text();
    if (in.ok()) handle_news(news, &from);
  } else if (frame.header.type == FrameType::kBye) {
    const auto rank = in.number<std::int32_t>();
    const auto operations = in.number<std::uint64_t>();
    if (in.ok() && rank >= 0 && rank < size_) handle_bye(rank, operations, &from);
  } else if (frame.header.type == FrameType::kWhere) {
    pass_where(frame);
  }
}

void Service::handle_news(const News& news, const Link* from) {
  if (mailbox_.lose(news)) tell(from, FrameType::kNews, encode_news(news));
}

void Service::handle_bye(int rank, std::uint64_t operations, const Link* from) {
  if (rank == rank_ || !mailbox_.leave(rank, operations)) return;
  tell(from, FrameType::kBye, encode_bye(rank, operations));
  heal_soon();
}

// The control connection to the first rank to the right that is still there.
Service::Link* Service::right_link() {
  for (int step = 1; step < size_; ++step) {
    const int next = (rank_ + step) % size_;
    if (mailbox_.left_after(next) || unreachable_[static_cast<std::size_t>(next)]) continue;
    for (const auto& link : links_) {
      if (link->purpose == Purpose::kControl && link->peer == next && !link->closed)
        return link.get();
    }
    return nullptr;
  }
  return nullptr;
}

void Service::heal_soon() {
  if (!heal_at_) heal_at_ = Deadline::after(kHealDelay);
}

void Service::heal() {
  heal_at_.reset();
  if (addresses_.empty() || stop_by_ || right_link() != nullptr) return;
  for (int step = 1; step < size_; ++step) {
    const int next = (rank_ + step) % size_;
    if (mailbox_.left_after(next) || unreachable_[static_cast<std::size_t>(next)]) continue;
    for (const auto& entry : pending_) {
      if (entry->fd && entry->target == next) return;
    }
    try {
      auto entry = std::make_unique<Pending>(Pending{
          start_connect(addresses_[static_cast<std::size_t>(next)]),
          Handshake::client(key_, Purpose::kControl, rank_, next), Deadline::after(kHealLimit)});
      entry->connecting = true;
      entry->target = next;
      entry->events = POLLOUT;
      pending_.push_back(std::move(entry));
      return;
    } catch (const Error& error) {
      log::debug("bootstrap: rank ", next, " cannot be reached: ", error.message());
      unreachable_[static_cast<std::size_t>(next)] = true;
    }
  }
}

// The question goes round to the right; each rank adds what it knows of itself.
void Service::ask_where(std::uint64_t query) {
  post([this, query] {
    Link* right = right_link();
    if (right == nullptr) return;
    ByteWriter out;
    out.number(std::int32_t(rank_)).number(query);
    queue(*right, FrameType::kWhere, out.take());
  });
}

void Service::pass_where(const Frame& frame) {
  ByteReader in(frame.payload);
  const auto origin = in.number<std::int32_t>();
  const auto query = in.number<std::uint64_t>();
  if (origin == rank_) {
    std::vector<Whereabouts> all;
    while (in.ok() && in.left() > 0) {
      const auto rank = in.number<std::int32_t>();
      all.push_back({rank, in.number<std::uint64_t>()});
    }
    return mailbox_.answer_where(query, std::move(all));
  }
  Link* right = right_link();
  if (right == nullptr) return;
  ByteWriter out;
  out.bytes(frame.payload).number(std::int32_t(rank_)).number(entered_.load());
  queue(*right, FrameType::kWhere, out.take());
}

}  // namespace rungs::bootstrap::detail
