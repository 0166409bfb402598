#include <rungs/gpu/peer.hpp>

#include <cstddef>
#include <utility>

namespace rungs::gpu {

// Making a mapping and ending it are the back end's; what lies between is not.

PeerMapping::PeerMapping(PeerMapping&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)),
      mapped_bytes_(other.mapped_bytes_),
      offset_bytes_(other.offset_bytes_),
      handle_(other.handle_) {}

PeerMapping& PeerMapping::operator=(PeerMapping&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  std::swap(offset_bytes_, other.offset_bytes_);
  std::swap(handle_, other.handle_);
  return *this;
}

void* PeerMapping::data() const noexcept {
  return base_ == nullptr ? nullptr : static_cast<std::byte*>(base_) + offset_bytes_;
}

}  // namespace rungs::gpu
