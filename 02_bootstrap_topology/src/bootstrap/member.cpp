#include "bootstrap/member.hpp"

#include "bootstrap/unix_socket.hpp"

#include <rungs/core/random_bytes.hpp>

#include <poll.h>

#include <chrono>
#include <utility>

namespace rungs::bootstrap::detail {
namespace {

using namespace std::chrono_literals;

// Ranks that failed while joining stay this long, so that neighbours still connecting are told.
constexpr double kLingerSeconds = 0.3;
// A connection broke: so long until the news of why has come round.
constexpr auto kReasonLimit = 1s;

std::string unix_socket_name(std::span<const std::byte> random) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string name = "rungs-";
  for (const std::byte b : random) {
    name += kDigits[std::to_integer<unsigned>(b) >> 4];
    name += kDigits[std::to_integer<unsigned>(b) & 15];
  }
  return name;
}

}  // namespace

void Record::write(ByteWriter& out) const {
  address.write(out);
  out.bytes(host).bytes(process).bytes(unix_name);
}

Record Record::read(ByteReader& in) {
  Record record;
  record.address = Address::read(in);
  in.bytes(record.host);
  in.bytes(record.process);
  in.bytes(record.unix_name);
  return record;
}

Member::Member(Joined joined, int rank, int size, const std::string& host_id)
    : rank_(rank),
      size_(size),
      key_(joined.key),
      records_(static_cast<std::size_t>(size)) {
  Record& mine = records_[static_cast<std::size_t>(rank)];
  mine.address = joined.address;
  mine.host = host_digest(host_id);
  mine.process = process_token();
  fill_random(mine.unix_name);
  records_[static_cast<std::size_t>(next())].address = joined.successor;
  service_ = std::make_unique<Service>(rank, size, key_, std::move(joined.listener),
                                       listen_on_unix(unix_socket_name(mine.unix_name)));
}

Member::~Member() {
  const bool failed_in_join = !met_ && mailbox().news() != nullptr;
  service_->leave(completed_, failed_in_join ? kLingerSeconds : 0);
}

void Member::meet(const Deadline& deadline) {
  const Call call = begin(FrameType::kRecords, Record::kWireBytes, deadline);
  if (size_ > 1) {
    service_->add_control(open_connection(next(), Purpose::kControl, call), next());
    ByteWriter mine;
    record(rank_).write(mine);
    std::vector<std::byte> all(Record::kWireBytes * records_.size());
    ring_all_gather(*this, call, mine.written(), all);
    ByteReader in(all);
    std::vector<Address> addresses;
    for (Record& record : records_) {
      record = Record::read(in);
      addresses.push_back(record.address);
    }
    service_->set_addresses(std::move(addresses));
  }
  end(call);
  met_ = true;
}

void Member::require_rank(int rank, const char* what) const {
  RUNGS_REQUIRE(rank >= 0 && rank < size_, what, ": there is no rank ", rank, " among ", size_);
}

Call Member::begin(FrameType type, std::size_t block_bytes, const Deadline& deadline) {
  const std::uint64_t operation = service_->entered().load() + 1;
  const Call call{type, operation, block_bytes, deadline};
  if (mailbox().news() != nullptr) throw_lost(to_string(call));
  service_->entered() = operation;
  return call;
}

Descriptor Member::open_connection(int to, Purpose purpose, const Call& call) {
  const std::string doing = to_string(call);
  const Record& other = record(to);
  const std::string where = concat("rank ", to, " at ", other.address.to_string());
  Descriptor fd = purpose == Purpose::kFd ? connect_unix(unix_socket_name(other.unix_name))
                                          : start_connect(other.address);
  Handshake handshake = Handshake::client(key_, purpose, rank_, to);
  const auto ready = [&](short events) {
    const Wait wait = wait_for(fd.get(), events, call.deadline, mailbox().lost_fd());
    if (wait == Wait::kInterrupted) throw_lost(doing);
    return wait == Wait::kReady;
  };
  std::string waited_for = "the connection";
  if (ready(POLLOUT)) {
    if (const int error = connect_result(fd.get()))
      throw_unreachable(to, doing, concat(where, " cannot be reached: ", error_text(error)));
    while (true) {
      const Handshake::Progress progress = handshake.advance(fd.get());
      if (progress == Handshake::Progress::kDone) return fd;
      if (progress == Handshake::Progress::kFailed)
        throw_unreachable(to, doing, concat(where, ": ", handshake.failure()));
      if (!ready(progress == Handshake::Progress::kWantRead ? POLLIN : POLLOUT)) break;
    }
    waited_for = handshake.awaited();
  }
  const std::string text = concat(doing, ": ", where, ": waiting for ", waited_for);
  if (call.is_collective()) throw_timeout(call, text);
  RUNGS_THROW(kTimeout, "rank ", rank_, " waited ", call.deadline.waited().count(), " s in ", text);
}

Connection& Member::connection_to(int to, Purpose purpose, const Call& call) {
  SharedConnection& connection = connections_[{to, purpose}];
  if (!connection) {
    if (mailbox().left_after(to)) throw_left(to, to_string(call));
    auto fresh = std::make_shared<Connection>();
    fresh->fd = open_connection(to, purpose, call);
    connection = std::move(fresh);
    service_->watch(connection, to, purpose);
  }
  return *connection;
}

void Member::write_frame(int to, Connection& connection, const Call& call, std::uint32_t step,
                         std::span<const std::byte> payload, int fd) {
  const std::string doing = to_string(call);
  if (connection.torn) throw_unreachable(to, doing, "an earlier message was cut off");
  FrameHeader header{call.type,      connection.sequence, step,
                     call.operation, call.block_bytes,    payload.size()};
  const auto head = header.encode();
  const std::size_t total = head.size() + payload.size();
  std::size_t sent = 0;
  while (sent < total) {
    Moved some;
    if (fd >= 0 && sent == 0) {
      some = write_with_fd(connection.fd.get(), head, fd);
      if (some.closed && some.error != EPIPE && some.error != ECONNRESET)
        RUNGS_THROW(kSystem, doing, ": descriptor ", fd, " to rank ", to, ": ",
                    error_text(some.error));
    } else if (sent < head.size()) {
      some = write_some(connection.fd.get(), std::span(head).subspan(sent), payload);
    } else {
      some = write_some(connection.fd.get(), payload.subspan(sent - head.size()));
    }
    if (some.closed)
      throw_unreachable(to, doing, concat("its connection broke: ", error_text(some.error)));
    sent += some.bytes;
    connection.torn = sent < total && sent > 0;
    if (some.bytes > 0) continue;
    const Wait wait = wait_for(connection.fd.get(), POLLOUT, call.deadline, mailbox().lost_fd());
    if (wait == Wait::kInterrupted) throw_lost(doing);
    if (wait == Wait::kReady) continue;
    const std::string text =
        concat(doing, ": rank ", rank_, " waited ", call.deadline.waited().count(), " s for rank ",
               to, " to take ", payload.size(), " bytes (", sent, " sent): is it stopped?");
    if (connection.torn) break_group(ErrorCode::kTimeout, to, text);
    RUNGS_THROW(kTimeout, text);
  }
  ++connection.sequence;
}

void Member::send(int to, const Call& call, std::uint32_t step,
                  std::span<const std::byte> payload) {
  write_frame(to, connection_to(to, Purpose::kData, call), call, step, payload, -1);
}

std::vector<std::byte> Member::receive(int from, const Call& call, std::uint32_t step,
                                       const std::string& awaited) {
  const auto doing = [&] {
    return concat(to_string(call), ", step ", step, ", waiting for ", awaited);
  };
  Frame frame;
  switch (mailbox().wait_collective(from, call.operation, call.deadline, frame)) {
    case Arrival::kReady:
      break;
    case Arrival::kLost:
      throw_lost(doing());
    case Arrival::kLeft:
      throw_left(mailbox().who_left(), doing());
    case Arrival::kTimeout:
      throw_timeout(call, doing());
  }
  const FrameHeader& seen = frame.header;
  if (seen.type != call.type || seen.operation != call.operation || seen.step != step ||
      seen.block_bytes != call.block_bytes) {
    throw_mismatch(from, seen, call, step);
  }
  return std::move(frame.payload);
}

void Member::throw_unreachable(int to, const std::string& doing, const std::string& reason) {
  // The connection only says that something is wrong; the news says what.
  mailbox().wait_gone(to, Deadline::after(kReasonLimit));
  if (mailbox().news() != nullptr) throw_lost(doing);
  if (mailbox().left_after(to)) throw_left(to, doing);
  break_group(ErrorCode::kPeerLost, to, concat(doing, ": rank ", to, ": ", reason));
}

}  // namespace rungs::bootstrap::detail
