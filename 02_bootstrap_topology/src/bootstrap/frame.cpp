#include "bootstrap/frame.hpp"

#include "bootstrap/bytes.hpp"
#include "bootstrap/unix_socket.hpp"

#include <rungs/core/error.hpp>

#include <algorithm>
#include <utility>

namespace rungs::bootstrap::detail {
namespace {

constexpr std::uint32_t kMagic = 0x46'53'42'52;  // "RBSF"
constexpr std::uint64_t kMostPayloadBytes = std::uint64_t{1} << 36;
constexpr std::size_t kTurnBytes = std::size_t{1} << 20;

}  // namespace

const char* to_string(FrameType type) noexcept {
  switch (type) {
    case FrameType::kRecords:
      return "join";
    case FrameType::kGatherStar:
      return "all_gather (star)";
    case FrameType::kGatherRing:
      return "all_gather (ring)";
    case FrameType::kGatherBothWays:
      return "all_gather (both ways)";
    case FrameType::kBarrier:
      return "barrier";
    case FrameType::kMessage:
      return "message";
    case FrameType::kFd:
      return "descriptor";
    case FrameType::kHello:
      return "hello";
    case FrameType::kNews:
      return "news";
    case FrameType::kBye:
      return "goodbye";
    case FrameType::kWhere:
      return "where";
  }
  return "unknown";
}

std::array<std::byte, FrameHeader::kWireBytes> FrameHeader::encode() const {
  ByteWriter out;
  out.number(kMagic).number(std::uint16_t(type)).number(std::uint16_t{0});
  out.number(sequence).number(step).number(operation).number(block_bytes).number(payload_bytes);
  out.number(std::uint64_t{0});
  std::array<std::byte, kWireBytes> bytes{};
  std::copy(out.written().begin(), out.written().end(), bytes.begin());
  return bytes;
}

bool FrameHeader::decode(std::span<const std::byte, kWireBytes> bytes, FrameHeader& header) {
  ByteReader in(bytes);
  if (in.number<std::uint32_t>() != kMagic) return false;
  header.type = FrameType{in.number<std::uint16_t>()};
  (void)in.number<std::uint16_t>();
  header.sequence = in.number<std::uint32_t>();
  header.step = in.number<std::uint32_t>();
  header.operation = in.number<std::uint64_t>();
  header.block_bytes = in.number<std::uint64_t>();
  header.payload_bytes = in.number<std::uint64_t>();
  return header.payload_bytes <= kMostPayloadBytes;
}

Moved FrameReader::read_from(int fd, std::span<std::byte> to) {
  return with_fds_ ? read_with_fds(fd, to, fds_) : read_some(fd, to);
}

bool FrameReader::close(const Moved& end) {
  if (end.error != 0) {
    closed_because_ = error_text(end.error);
  } else if (in_payload_ || begin_ < end_) {
    closed_because_ = "closed in the middle of a frame";
  } else {
    closed_because_ = "closed";
  }
  return false;
}

// Takes a header from the buffer if it is complete, and what of its payload is there.
bool FrameReader::take_header() {
  if (end_ - begin_ < FrameHeader::kWireBytes) return false;
  const auto bytes =
      std::span<const std::byte>(buffer_).subspan(begin_).first<FrameHeader::kWireBytes>();
  if (!FrameHeader::decode(bytes, frame_.header) || frame_.header.sequence != sequence_)
    RUNGS_THROW(kInternal, "frame ", sequence_, " of a connection is damaged");
  ++sequence_;
  begin_ += FrameHeader::kWireBytes;
  frame_.payload.resize(frame_.header.payload_bytes);
  payload_filled_ = std::min(end_ - begin_, frame_.payload.size());
  const auto first = buffer_.begin() + static_cast<std::ptrdiff_t>(begin_);
  std::copy_n(first, payload_filled_, frame_.payload.begin());
  begin_ += payload_filled_;
  in_payload_ = true;
  return true;
}

bool FrameReader::read(int fd, const std::function<void(Frame&&)>& deliver) {
  if (buffer_.empty()) buffer_.resize(kBufferBytes);
  std::size_t this_turn = 0;
  while (true) {
    // 1. Everything that the bytes at hand complete.
    while (in_payload_ || take_header()) {
      if (payload_filled_ < frame_.payload.size()) break;
      in_payload_ = false;
      if (frame_.header.type == FrameType::kFd) frame_.fds = std::exchange(fds_, {});
      deliver(std::exchange(frame_, {}));
    }
    if (this_turn >= kTurnBytes) return true;
    // 2. More: into the payload if one is under way, else into the buffer.
    Moved some;
    if (in_payload_) {
      some = read_from(fd, std::span(frame_.payload).subspan(payload_filled_));
      payload_filled_ += some.bytes;
    } else {
      std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_),
                buffer_.begin() + static_cast<std::ptrdiff_t>(end_), buffer_.begin());
      end_ -= begin_;
      begin_ = 0;
      some = read_from(fd, std::span(buffer_).subspan(end_));
      end_ += some.bytes;
    }
    if (some.closed) return close(some);
    if (some.bytes == 0) return true;
    this_turn += some.bytes;
  }
}

}  // namespace rungs::bootstrap::detail
