#pragma once
/// @file carrier.hpp
/// What a carrier is: two ends of a one-way pipe for pieces of messages.
///
///     sender                                          receiver
///       put(piece)   ── bytes, in their slot ──────>    offer(window)
///       settled()    <── credit: the slot is free ──    filled()
///
/// Pieces pass in order, and the receiver offers one window a piece, so piece i meets window i. The
/// schedules above (naive/, optimized/) cut messages and count; the carriers below know nothing of
/// messages but the four numbers of a Piece.
///
/// None of these calls waits. Each says whether it did something; any of them throws Error if the
/// pipe is broken.

#include <rungs/gpu/stream.hpp>
#include <rungs/transport/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace rungs::transport::detail {

/// What passes between processes with every piece.
struct Piece {
  std::uint64_t message = 0;      ///< number of its message in this direction, from 0
  std::uint64_t total_bytes = 0;  ///< of the message
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;

  [[nodiscard]] bool last() const noexcept { return offset_bytes + size_bytes == total_bytes; }
};
static_assert(sizeof(Piece) == 32);

/// Memory that a piece lies in and that lives as long as others of it do: what is worth registering
/// with an HCA at once.
struct Region {
  const std::byte* data = nullptr;
  std::size_t size_bytes = 0;
};

/// Where a piece is read from: `data` is the piece's first byte.
struct Source {
  const std::byte* data = nullptr;
  bool on_device = false;
  Region region;
  const gpu::Event* after = nullptr;  ///< device memory is valid once this was reached
};

/// Where a piece may go. A window holds a whole piece: both ends cut at the same slot size.
struct Window {
  std::uint64_t message = 0;
  std::uint64_t capacity_bytes = 0;  ///< of the whole receive: a longer message is refused
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;
  std::byte* data = nullptr;  ///< of the window's first byte
  bool on_device = false;
  Region region;
  const gpu::Event* after = nullptr;
};

/// @throws Error kInternal if the piece is not the one that the window waits for
void check_piece(const Piece& piece, const Window& window);

/// How a piece ended: taken, or refused by a receiver with too little room.
struct Settlement {
  bool refused = false;
  std::uint64_t capacity_bytes = 0;  ///< the receiver's room, if refused
};

/// The sender's end.
class Outlet {
 public:
  virtual ~Outlet() = default;
  /// Begins to move a piece. Its memory stays in use until settled() speaks of it.
  /// @return false if there is no room now
  virtual bool put(const Piece& piece, const Source& source) = 0;
  /// Tells the fate of the oldest piece not yet told.
  virtual bool settled(Settlement& out) = 0;
  /// Returns when nobody reads the message's memory any more. Its pieces are settled as before;
  /// what was not yet on its way need not go.
  virtual void cancel(std::uint64_t message) = 0;
  /// Returns when nobody reads the memory of any piece any more. The pipe is not used afterwards.
  virtual void stop() noexcept = 0;
  /// Tells the peer that nothing more will come. Never waits long, never throws.
  virtual void close() noexcept = 0;
};

/// The receiver's end.
class Inlet {
 public:
  virtual ~Inlet() = default;
  /// Adds room for one piece. @return false if it must be said again later
  virtual bool offer(const Window& window) = 0;
  /// Whether the oldest window is filled, and with what. `refused`: the message is longer than the
  /// window's capacity; its pieces are dropped.
  virtual bool filled(Piece& out, bool& refused) = 0;
  /// Returns when nobody writes into any window any more. The pipe is not used afterwards.
  virtual void stop() noexcept = 0;
  virtual void close() noexcept = 0;
};

/// Both ends of a link.
struct Ends {
  std::unique_ptr<Outlet> outlet;
  std::unique_ptr<Inlet> inlet;
};

}  // namespace rungs::transport::detail
