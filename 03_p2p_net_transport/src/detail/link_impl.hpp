#pragma once
/// @file link_impl.hpp
/// What a Link points to: one of the two schedules over one of the four carriers.

#include "detail/carrier.hpp"
#include "detail/request.hpp"

#include <rungs/gpu/stream.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace rungs::transport::detail {

/// One message on its way.
struct Transfer {
  std::shared_ptr<RequestState> request;
  std::byte* data = nullptr;  // a send only reads it
  bool on_device = false;
  std::shared_ptr<gpu::Event> after;  // device memory is valid once this was reached; null: now

  [[nodiscard]] std::size_t size_bytes() const { return request->size_bytes; }
};

/// The piece of a message that begins at `offset`.
Piece piece_at(const Transfer& transfer, std::size_t offset, std::size_t slot_bytes);
Source source_at(const Transfer& transfer, std::size_t offset);
/// The window at `offset` of a receive, for a message of `total_bytes` (or room for that many).
Window window_at(const Transfer& transfer, std::size_t offset, std::size_t total_bytes,
                 std::size_t slot_bytes);
/// What both sides say when the receiver's room is too small.
void fail_too_small(RequestState& request, std::size_t message_bytes, std::size_t room_bytes);

/// What a schedule is given.
struct LinkParts {
  int peer = -1;
  Kind kind = Kind::kSharedMemory;
  std::size_t slot_bytes = 0;
  double timeout_seconds = 60;
  Ends ends;
  std::shared_ptr<ContextState> context;
};

class LinkImpl {
 public:
  explicit LinkImpl(LinkParts parts) : parts_(std::move(parts)) {}
  virtual ~LinkImpl() = default;
  LinkImpl(const LinkImpl&) = delete;
  LinkImpl& operator=(const LinkImpl&) = delete;
  [[nodiscard]] int peer() const noexcept { return parts_.peer; }
  [[nodiscard]] Kind kind() const noexcept { return parts_.kind; }
  virtual void send(const Transfer& transfer) = 0;
  virtual void receive(const Transfer& transfer) = 0;

  /// Numbers the call's message and checks its arguments.
  Transfer make_transfer(bool is_send, void* data, std::size_t size_bytes, bool on_device,
                         gpu::StreamHandle stream);

 protected:
  LinkParts parts_;

 private:
  std::uint64_t sends_ = 0;
  std::uint64_t receives_ = 0;
};

/// src/naive/blocking.cpp
std::unique_ptr<LinkImpl> make_blocking_link(LinkParts parts);
/// src/optimized/pipelined.cpp
std::unique_ptr<LinkImpl> make_pipelined_link(LinkParts parts);

}  // namespace rungs::transport::detail
