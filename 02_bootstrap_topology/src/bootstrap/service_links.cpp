// Reading and writing frames on the control thread.

#include "bootstrap/service.hpp"

#include "bootstrap/bytes.hpp"

#include <rungs/core/error.hpp>
#include <rungs/core/log.hpp>

#include <sys/socket.h>

#include <algorithm>
#include <utility>

namespace rungs::bootstrap::detail {

void Service::open_link(SharedConnection connection, int peer, Purpose purpose, bool outgoing) {
  auto link = std::make_unique<Link>(
      Link{std::move(connection), peer, purpose, outgoing, FrameReader(purpose == Purpose::kFd)});
  // A control connection is confirmed by the other end's hello: its handshake may have been cut off
  // after this end's part, by a rank that was just leaving.
  link->confirmed = outgoing && purpose != Purpose::kControl;
  const bool inbound = purpose != Purpose::kControl && !outgoing;
  if (inbound) mailbox_.inbound_opened(peer);
  links_.push_back(std::move(link));
  if (purpose != Purpose::kControl) return;
  // Whoever comes late hears what all others know.
  Link& opened = *links_.back();
  queue(opened, FrameType::kHello, {});
  for (int rank = 0; rank < size_; ++rank) {
    const std::optional<std::uint64_t> operations = mailbox_.left_after(rank);
    if (!operations) continue;
    queue(opened, FrameType::kBye, encode_bye(rank, *operations));
  }
  if (const News* news = mailbox_.news()) queue(opened, FrameType::kNews, encode_news(*news));
}

void Service::read_link(Link& link) {
  if (link.closed) return;
  const bool open = link.reader.read(link.fd(), [&](Frame&& frame) {
    const FrameType type = frame.header.type;
    const bool about_the_group = type >= FrameType::kHello;
    link.confirmed = true;
    if (about_the_group) {
      hear(link, frame);
    } else {
      mailbox_.deliver(link.peer, std::move(frame));
    }
  });
  if (!open) link_ended(link);
}

void Service::link_ended(Link& link) {
  link.closed = true;
  // Who leaves waits until what it said is acknowledged. Closing would do it, but the caller's
  // thread may hold the connection.
  acknowledge_now(link.fd());
  if (link.purpose != Purpose::kControl && !link.outgoing) mailbox_.inbound_closed(link.peer);
  if (link.confirmed && !stop_by_ && !mailbox_.left_after(link.peer)) {
    handle_news({ErrorCode::kPeerLost,
                 {link.peer, concat("rank ", link.peer, " died: its ", to_string(link.purpose),
                                    " connection to rank ", rank_, " ended without a goodbye (",
                                    link.reader.closed_because(), ")")}},
                &link);
  }
  heal_soon();
}

void Service::queue(Link& link, FrameType type, std::span<const std::byte> payload) {
  if (link.closed || link.connection->torn) return;
  FrameHeader header;
  header.type = type;
  header.sequence = link.connection->sequence++;
  header.payload_bytes = payload.size();
  const auto bytes = header.encode();
  link.out.insert(link.out.end(), bytes.begin(), bytes.end());
  link.out.insert(link.out.end(), payload.begin(), payload.end());
  flush(link);
}

void Service::flush(Link& link) {
  while (!link.out.empty() && !link.closed) {
    const Moved some = write_some(link.fd(), link.out);
    if (some.closed) {
      // Reading tells whether it said goodbye before it went.
      link.out.clear();
      return;
    }
    if (some.bytes == 0) return;
    link.out.erase(link.out.begin(), link.out.begin() + static_cast<std::ptrdiff_t>(some.bytes));
  }
}

// On every connection, in both directions: whoever sees one end must not take it for a death. And
// who leaves because of some news tells it first: the goodbye on a direct connection would overtake
// it.
void Service::say_goodbye(std::uint64_t operations) {
  const std::vector<std::byte> payload = encode_bye(rank_, operations);
  const News* news = mailbox_.news();
  // A handshake that ended after this would make a connection without a goodbye.
  for (const auto& entry : pending_) entry->fd.reset();
  for (const auto& link : links_) {
    if (news != nullptr) queue(*link, FrameType::kNews, encode_news(*news));
    queue(*link, FrameType::kBye, payload);
  }
}

bool Service::all_flushed() const {
  return std::all_of(links_.begin(), links_.end(),
                     [](const auto& link) { return link->out.empty(); });
}

// A connection that is closed with bytes unread, or before some arrive, is reset, and a reset
// throws away what the other end's kernel has not acknowledged: the goodbye, or a message before
// it. So this end stops writing, and stays until all is acknowledged.
void Service::shut_links() {
  for (const auto& link : links_) {
    if (!std::exchange(link->shut, true)) ::shutdown(link->fd(), SHUT_WR);
  }
}

bool Service::all_acknowledged() const {
  return std::all_of(links_.begin(), links_.end(), [](const auto& link) {
    return link->closed || (link->shut && unacknowledged_bytes(link->fd()) == 0);
  });
}

}  // namespace rungs::bootstrap::detail
