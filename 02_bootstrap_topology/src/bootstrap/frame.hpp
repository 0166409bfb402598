#pragma once
/// @file frame.hpp
/// What travels on a connection after its handshake: a header of 48 bytes, then the payload.
///
///     0  magic    4  type, flags   8  sequence, step   16 operation   24 block   32 payload   40 0
///
/// The header says which call the frame belongs to, so that ranks that call different things, or
/// the same with different sizes, are told so instead of reading each other's bytes as their own.

#include "bootstrap/socket.hpp"

#include <rungs/config.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace rungs::bootstrap::detail {

enum class FrameType : std::uint16_t {
  // Collective calls; `operation` counts them.
  kRecords = 1,     ///< the first exchange: who everybody is
  kGatherStar,      ///< all_gather through rank 0
  kGatherRing,      ///< all_gather round the ring
  kGatherBothWays,  ///< all_gather round the ring in both directions
  kBarrier,
  // Messages; `operation` is the tag.
  kMessage,
  kFd,
  // Between control threads.
  kHello,  ///< first on a control connection: its maker has seen it stand
  kNews,   ///< a rank was lost or gave up
  kBye,    ///< a rank leaves
  kWhere,  ///< which call is everybody in?
};
/// "all_gather" for both of its forms, "barrier", ...
const char* to_string(FrameType type) noexcept;

struct FrameHeader {
  FrameType type = FrameType::kMessage;
  std::uint32_t sequence = 0;  ///< counts the frames of a connection
  std::uint32_t step = 0;
  std::uint64_t operation = 0;
  std::uint64_t block_bytes = 0;  ///< size of a rank's block in this call
  std::uint64_t payload_bytes = 0;

  static constexpr std::size_t kWireBytes = 48;
  [[nodiscard]] std::array<std::byte, kWireBytes> encode() const;
  /// False: no frame begins here.
  static bool decode(std::span<const std::byte, kWireBytes> bytes, FrameHeader& header);
};

struct Frame {
  FrameHeader header;
  std::vector<std::byte> payload;
  std::vector<Descriptor> fds;
};

/// Assembles frames from what a non-blocking socket has.
class FrameReader {
 public:
  /// @param with_fds a Unix socket
  explicit FrameReader(bool with_fds = false) : with_fds_(with_fds) {}
  /// Reads what is there (up to a megabyte, so that other connections have their turn) and hands
  /// over each frame that is complete.
  /// @return false once the connection is at its end; then closed_because() says why
  bool read(int fd, const std::function<void(Frame&&)>& deliver);
  [[nodiscard]] const std::string& closed_because() const noexcept { return closed_because_; }

 private:
  Moved read_from(int fd, std::span<std::byte> to);
  bool take_header();
  bool close(const Moved& end);

  static constexpr std::size_t kBufferBytes = 8192;
  bool with_fds_;
  std::vector<std::byte> buffer_;  // bytes read but not yet looked at: [begin_, end_)
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  bool in_payload_ = false;
  Frame frame_;
  std::size_t payload_filled_ = 0;
  std::uint32_t sequence_ = 0;
  std::vector<Descriptor> fds_;
  std::string closed_because_;
};

}  // namespace rungs::bootstrap::detail
