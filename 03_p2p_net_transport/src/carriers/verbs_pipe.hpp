#pragma once
/// @file verbs_pipe.hpp
/// One direction of a link over verbs: a queue pair at each end, and who writes where.
///
///     receiver R                                              sender S
///       window i ── RDMA write + imm: ClearToSend i ────────>  clear[i % kEntries]
///       memory   <──────────────── RDMA write: the bytes ────  piece i
///       heads[i % kEntries] <──── RDMA write + imm: Piece ───  "piece i is there", signalled
///
/// The writes of a queue pair land in order: who sees the header sees the bytes. R offers at most
/// kSlots windows that no piece has filled, so an entry is never overwritten before it was read.
/// The immediate only tells that something came, or kClosed.

#include "carriers/verbs_hca.hpp"

#include <rungs/verbs/device.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

namespace rungs::transport::detail {

inline constexpr std::uint32_t kClosed = 0xffffffffu;
inline constexpr std::size_t kEntries = 2 * kSlots;

/// What the receiver writes into the sender's memory for each window.
struct ClearToSend {
  std::uint64_t message;
  std::uint64_t offset_bytes;
  std::uint64_t capacity_bytes;
  std::uint64_t size_bytes;
  std::uint64_t address;
  std::uint32_t rkey;
  std::uint32_t reserved;
};
static_assert(sizeof(ClearToSend) == 48);

/// What an end must know of the other.
struct VerbsNote {
  verbs::QpAddress address;
  std::uint64_t entries_address = 0;  ///< clear[] of a sender, heads[] of a receiver
  std::uint32_t entries_rkey = 0;
  std::uint32_t reserved = 0;
};

/// What both ends have: the queue pair, the entries that the peer writes, and a staging pool for
/// pieces that are not worth a registration.
class VerbsPipe {
 public:
  /// @param entry_bytes size of what the peer writes
  /// @param stage_bytes room for a piece in the pool, which holds `slots` of them
  VerbsPipe(std::shared_ptr<Hca> hca, std::size_t entry_bytes, unsigned slots,
            std::size_t stage_bytes);
  ~VerbsPipe();
  VerbsPipe(const VerbsPipe&) = delete;
  VerbsPipe& operator=(const VerbsPipe&) = delete;

  [[nodiscard]] VerbsNote note() const;
  void connect(const VerbsNote& peer);

  /// Takes what came. @return how many entries the peer has written since the last call
  /// @throws Error when the pair failed
  std::size_t arrivals();
  [[nodiscard]] bool peer_closed() const noexcept { return peer_closed_; }
  /// Writes `data` (if any) to `to`, then entry number `index` of the peer; the latter signalled.
  void write(const verbs::Segment* data, std::uint64_t to, std::uint32_t rkey, std::uint64_t index,
             const void* entry, std::size_t entry_bytes);
  /// Entries of this end that the peer's HCA has acknowledged since the last call.
  std::size_t acknowledged();

  [[nodiscard]] const std::byte* entry(std::uint64_t index) const {
    return entries_.data() + index % kEntries * entry_bytes_;
  }
  [[nodiscard]] bool staged(std::size_t size_bytes) const { return size_bytes <= stage_bytes_; }
  [[nodiscard]] std::size_t stage_offset(std::uint64_t index) const {
    return index % slots_ * stage_bytes_;
  }
  [[nodiscard]] RegisteredMemory& stage() noexcept { return stage_; }
  [[nodiscard]] Hca& hca() noexcept { return *hca_; }
  void stop() noexcept;
  void close() noexcept;

 private:
  void take(const verbs::Completion& completion);
  void poll_sends();
  void poll_all();

  std::shared_ptr<Hca> hca_;
  std::size_t entry_bytes_;
  unsigned slots_;
  std::size_t stage_bytes_;
  RegisteredMemory entries_;
  RegisteredMemory stage_;
  verbs::CompletionQueue send_cq_;
  verbs::CompletionQueue recv_cq_;
  verbs::QueuePair pair_;
  VerbsNote peer_;
  std::size_t arrivals_ = 0;
  std::size_t acknowledged_ = 0;
  std::size_t unacknowledged_ = 0;  // signalled requests without a completion
  bool peer_closed_ = false;
  bool stopped_ = false;
  std::optional<Error> broken_;
};

}  // namespace rungs::transport::detail
