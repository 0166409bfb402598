// What the root does with those who connect.

#include "bootstrap/root_server.hpp"

#include <rungs/core/log.hpp>
#include <rungs/core/random_bytes.hpp>

#include <poll.h>

#include <chrono>

namespace rungs::bootstrap::detail {
namespace {

constexpr auto kStageLimit = std::chrono::seconds(10);

}  // namespace

void RootServer::advance(Visitor& visitor) {
  if (!visitor.fd) return;
  switch (visitor.stage) {
    case Visitor::Stage::kHandshake:
      return greet(visitor);
    case Visitor::Stage::kRegistration:
      return read_registration(visitor);
    case Visitor::Stage::kWaiting: {
      // It has nothing to say until it is answered: what can be read is its end.
      const int rank = visitor.registration.rank;
      visitor.fd.reset();
      registered_[static_cast<std::size_t>(rank)] = nullptr;
      --there_;
      return fail_all(ErrorCode::kPeerLost,
                      concat(name_, ": rank ", rank, " (", visitor.from,
                             ") died while it waited for the others; ", missing()));
    }
    case Visitor::Stage::kAnswered:
      return flush(visitor);
  }
}

void RootServer::greet(Visitor& visitor) {
  switch (visitor.handshake.advance(visitor.fd.get())) {
    case Handshake::Progress::kWantRead:
      visitor.events = POLLIN;
      return;
    case Handshake::Progress::kWantWrite:
      visitor.events = POLLOUT;
      return;
    case Handshake::Progress::kFailed:
      return drop(visitor, visitor.handshake.failure());
    case Handshake::Progress::kDone:
      if (visitor.handshake.purpose() != Purpose::kRendezvous)
        return drop(visitor, "it comes for something else than the rendezvous");
      visitor.stage = Visitor::Stage::kRegistration;
      visitor.events = POLLIN;
      visitor.deadline = Deadline::after(kStageLimit);
      return read_registration(visitor);
  }
}

void RootServer::read_registration(Visitor& visitor) {
  const MessageReader::State state = visitor.reader.read(visitor.fd.get());
  if (state == MessageReader::State::kMore) return;
  if (state != MessageReader::State::kComplete)
    return drop(visitor, "it knew the secret but did not say which rank it is");
  const std::optional<Registration> said = decode_registration(visitor.reader.body());
  if (!said) return drop(visitor, "its registration cannot be read");
  visitor.registration = *said;
  register_rank(visitor);
}

void RootServer::register_rank(Visitor& visitor) {
  const int rank = visitor.registration.rank;
  const int size = visitor.registration.size;
  if (failed_) return answer(visitor, encode(*failed_));
  if (size != ranks_ || rank < 0 || rank >= ranks_) {
    // Started for another number of ranks: this one can never be complete, so nobody waits for it.
    const std::string text = concat(name_, ": rank ", rank, " (", visitor.from,
                                    ") was started as one of ", size, " ranks, the root waits for ",
                                    ranks_, ": start root and ranks with the same number");
    fail_all(ErrorCode::kInvalidArgument, text);
    return answer(visitor, encode(*failed_));
  }
  Visitor*& place = registered_[static_cast<std::size_t>(rank)];
  if (place != nullptr) {
    const std::string text =
        concat(name_, ": rank ", rank, " is already there (from ", place->from,
               "); another one came from ", visitor.from, ": give each process its own rank");
    log::warn(text);
    complaints_.push_back(
        concat("rank ", rank, " came twice, from ", place->from, " and ", visitor.from));
    return answer(visitor, encode(Refusal{ErrorCode::kInvalidArgument, text}));
  }
  place = &visitor;
  ++there_;
  visitor.stage = Visitor::Stage::kWaiting;
  visitor.events = POLLIN;
  const Deadline patience = Deadline::after(
      std::chrono::duration<double>(visitor.registration.patience_ms / 1000.0) / timeout_scale());
  if (patience.remaining() < give_up_.remaining()) {
    give_up_ = patience;
    least_patient_ = rank;
  }
}

void RootServer::drop(Visitor& visitor, const std::string& reason) {
  visitor.fd.reset();
  log::warn(name_, ": dropped a connection from ", visitor.from, ": ", reason);
  if (complaints_.size() < 4)
    complaints_.push_back(concat("a connection from ", visitor.from, " was dropped: ", reason));
}

void RootServer::answer(Visitor& visitor, const std::vector<std::byte>& message) {
  visitor.stage = Visitor::Stage::kAnswered;
  visitor.deadline = Deadline::after(kStageLimit);
  visitor.out = message;
  flush(visitor);
}

void RootServer::flush(Visitor& visitor) {
  while (!visitor.out.empty()) {
    const Moved some = write_some(visitor.fd.get(), visitor.out);
    if (some.closed) visitor.out.clear();
    if (some.closed || some.bytes == 0) break;
    visitor.out.erase(visitor.out.begin(),
                      visitor.out.begin() + static_cast<std::ptrdiff_t>(some.bytes));
  }
  if (visitor.out.empty()) visitor.fd.reset();
}

void RootServer::welcome_all() {
  Welcome welcome;
  fill_random(welcome.session);
  for (std::size_t rank = 0; rank < registered_.size(); ++rank) {
    const std::size_t next = (rank + 1) % registered_.size();
    welcome.successor = registered_[next]->registration.address;
    answer(*registered_[rank], encode(welcome));
  }
  welcomed_ = true;
}

void RootServer::fail_all(ErrorCode code, const std::string& text) {
  if (failed_) return;
  failed_ = Refusal{code, text};
  log::error(text);
  for (Visitor*& visitor : registered_) {
    if (visitor != nullptr) answer(*visitor, encode(*failed_));
    visitor = nullptr;
  }
  end(Error(code, text, __FILE__, __LINE__));
}

std::string RootServer::missing() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (registered_[static_cast<std::size_t>(rank)] == nullptr) ranks.push_back(rank);
  }
  std::string text = ranks.empty() ? std::string("all ranks are there")
                                   : concat("missing: ", format_ranks(ranks), " of ", ranks_);
  for (const std::string& complaint : complaints_) text += concat("; ", complaint);
  return text;
}

}  // namespace rungs::bootstrap::detail
