// Messages and descriptors between two ranks.

#include "bootstrap/member.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace rungs::bootstrap::detail {
namespace {

Frame await(Member& member, FrameType type, int from, std::uint64_t tag, const Deadline& deadline) {
  const Call call{type, tag, 0, deadline};
  const auto doing = [&] { return concat(to_string(call), " from rank ", from); };
  member.require_rank(from, "receive");
  Frame frame;
  switch (member.mailbox().wait_message(type, from, tag, deadline, frame)) {
    case Arrival::kReady:
      return frame;
    case Arrival::kLost:
      member.throw_lost(doing());
    case Arrival::kLeft:
      member.throw_left(from, doing());
    case Arrival::kTimeout:
      break;
  }
  const std::size_t others = member.mailbox().unexpected_from(from);
  RUNGS_THROW(kTimeout, "rank ", member.rank(), ", ", doing(), ": waited ",
              deadline.waited().count(), " s; ", others,
              " messages with other tags from it have not been received");
}

}  // namespace

void send_message(Member& member, int to, std::uint64_t tag, std::span<const std::byte> message,
                  const Deadline& deadline) {
  member.require_rank(to, "send");
  const Call call{FrameType::kMessage, tag, 0, deadline};
  if (member.mailbox().news() != nullptr) member.throw_lost(to_string(call));
  if (to != member.rank()) return member.send(to, call, 0, message);
  Frame frame;
  frame.header = {FrameType::kMessage, 0, 0, tag, 0, message.size()};
  frame.payload.assign(message.begin(), message.end());
  member.deliver_to_self(std::move(frame));
}

std::vector<std::byte> receive_message(Member& member, int from, std::uint64_t tag,
                                       const Deadline& deadline) {
  return await(member, FrameType::kMessage, from, tag, deadline).payload;
}

void send_descriptor(Member& member, int to, std::uint64_t tag, int fd, const Deadline& deadline) {
  member.require_rank(to, "send_fd");
  RUNGS_REQUIRE(member.record(to).host == member.record(member.rank()).host, "send_fd: rank ", to,
                " is on another host than rank ", member.rank(),
                ": descriptors do not travel between hosts");
  RUNGS_REQUIRE(::fcntl(fd, F_GETFD) >= 0, "send_fd: ", fd, " is no open descriptor");
  const Call call{FrameType::kFd, tag, 0, deadline};
  if (member.mailbox().news() != nullptr) member.throw_lost(to_string(call));
  if (to != member.rank()) {
    member.write_frame(to, member.connection_to(to, Purpose::kFd, call), call, 0, {}, fd);
    return;
  }
  Frame frame;
  frame.header = {FrameType::kFd, 0, 0, tag, 0, 0};
  frame.fds.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!frame.fds.back()) RUNGS_THROW(kSystem, "send_fd: copy of ", fd, ": ", error_text(errno));
  member.deliver_to_self(std::move(frame));
}

int receive_descriptor(Member& member, int from, std::uint64_t tag, const Deadline& deadline) {
  Frame frame = await(member, FrameType::kFd, from, tag, deadline);
  if (frame.fds.empty() || !frame.fds.front()) {
    RUNGS_THROW(kSystem, "receive_fd with tag ", tag, " from rank ", from,
                ": the kernel dropped the descriptor: this process may open no more (`ulimit -n`)");
  }
  return frame.fds.front().release();
}

}  // namespace rungs::bootstrap::detail
