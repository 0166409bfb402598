#include "detail/context_state.hpp"
#include "detail/link_impl.hpp"

#include <rungs/core/error.hpp>

#include <algorithm>
#include <utility>

namespace rungs::transport {
namespace detail {

Piece piece_at(const Transfer& transfer, std::size_t offset, std::size_t slot_bytes) {
  const std::size_t total = transfer.size_bytes();
  return {transfer.request->message, total, offset, std::min(slot_bytes, total - offset)};
}

Source source_at(const Transfer& transfer, std::size_t offset) {
  // The stream keeps its order: only the first piece has to wait for the caller's work.
  return {transfer.data + offset,
          transfer.on_device,
          {transfer.data, transfer.size_bytes()},
          offset == 0 ? transfer.after.get() : nullptr};
}

Window window_at(const Transfer& transfer, std::size_t offset, std::size_t total_bytes,
                 std::size_t slot_bytes) {
  Window window;
  window.message = transfer.request->message;
  window.capacity_bytes = transfer.size_bytes();
  window.offset_bytes = offset;
  window.size_bytes = std::min(slot_bytes, total_bytes - offset);
  window.data = transfer.data + offset;
  window.on_device = transfer.on_device;
  window.region = {transfer.data, transfer.size_bytes()};
  window.after = offset == 0 ? transfer.after.get() : nullptr;
  return window;
}

void fail_too_small(RequestState& request, std::size_t message_bytes, std::size_t room_bytes) {
  request.fail(ErrorCode::kInvalidArgument,
               concat("the message has ", message_bytes, " bytes and the receiver room for ",
                      room_bytes, "; give receive() at least as many as send()"));
}

Transfer LinkImpl::make_transfer(bool is_send, void* data, std::size_t size_bytes, bool on_device,
                                 gpu::StreamHandle stream) {
  const char* const call = is_send ? "send" : "receive";
  RUNGS_REQUIRE(data != nullptr || size_bytes == 0, call, ": the data is null, but has ",
                size_bytes, " bytes");
  Transfer transfer;
  if (on_device && size_bytes > 0) {
    const std::optional<gpu::Device>& device = parts_.context->device();
    RUNGS_REQUIRE(device.has_value(), call,
                  ": device memory, but the context was made without a device");
    transfer.on_device = true;
    if (stream != nullptr) {
      transfer.after = std::make_shared<gpu::Event>(*device);
      transfer.after->record(stream);
    }
  }
  transfer.data = static_cast<std::byte*>(data);
  transfer.request = std::make_shared<RequestState>(is_send, parts_.peer, parts_.kind,
                                                    is_send ? sends_++ : receives_++, size_bytes);
  return transfer;
}

}  // namespace detail

Link::Link(std::unique_ptr<detail::LinkImpl> impl) : impl_(std::move(impl)) {}
Link::~Link() = default;
Link::Link(Link&&) noexcept = default;
Link& Link::operator=(Link&&) noexcept = default;
int Link::peer() const noexcept { return impl_->peer(); }
Kind Link::kind() const noexcept { return impl_->kind(); }

Request Link::send(const void* data, std::size_t size_bytes, bool on_device,
                   gpu::StreamHandle stream) {
  RUNGS_REQUIRE(impl_ != nullptr, "send: the link was moved away");
  const detail::Transfer transfer =
      impl_->make_transfer(true, const_cast<void*>(data), size_bytes, on_device, stream);
  impl_->send(transfer);
  return Request(transfer.request);
}

Request Link::receive(void* data, std::size_t size_bytes, bool on_device,
                      gpu::StreamHandle stream) {
  RUNGS_REQUIRE(impl_ != nullptr, "receive: the link was moved away");
  const detail::Transfer transfer =
      impl_->make_transfer(false, data, size_bytes, on_device, stream);
  impl_->receive(transfer);
  return Request(transfer.request);
}

}  // namespace rungs::transport
