#pragma once
/// @file shared_mapping.hpp
/// Host memory that two processes map: an anonymous file (memfd), which no name in /dev/shm limits
/// or leaves behind.

#include <rungs/config.hpp>

#include <cstddef>
#include <memory>

namespace rungs::transport::detail {

/// Owns a mapping of a memfd, and the descriptor until it was sent.
class SharedMapping {
 public:
  /// Zero-filled. @throws Error kSystem
  static std::shared_ptr<SharedMapping> create(std::size_t size_bytes);
  /// Maps the peer's; takes the descriptor. @throws Error kSystem, also if it is smaller
  static std::shared_ptr<SharedMapping> open(int fd, std::size_t size_bytes);
  ~SharedMapping();
  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] int fd() const noexcept { return fd_; }
  void close_fd() noexcept;

 private:
  SharedMapping(int fd, std::size_t size_bytes);
  int fd_;
  std::byte* data_ = nullptr;
  std::size_t size_bytes_;
};

}  // namespace rungs::transport::detail
