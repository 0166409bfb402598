#pragma once
/// @file slot_control.hpp
/// How the two carriers with slots share their control block.

#include "detail/handshake.hpp"
#include "detail/shared_mapping.hpp"
#include "detail/slot_fifo.hpp"

#include <cstddef>
#include <memory>

namespace rungs::transport::detail {

/// Room for the control block: whole pages, so that slots behind it begin on one.
constexpr std::size_t control_bytes() { return (sizeof(SlotControl) + 4095) / 4096 * 4096; }

/// Gives this rank's inlet memory to the peer for the peer's.
inline std::shared_ptr<SharedMapping> exchange_mapping(SetUp& set_up,
                                                       const std::shared_ptr<SharedMapping>& mine,
                                                       std::size_t size_bytes) {
  if (set_up.same_process()) {
    mine->close_fd();
    return std::static_pointer_cast<SharedMapping>(set_up.exchange_object(mine));
  }
  const int fd = set_up.exchange_fd(mine->fd());
  mine->close_fd();
  return SharedMapping::open(fd, size_bytes);
}

}  // namespace rungs::transport::detail
