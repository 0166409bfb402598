#pragma once
/// @file verbs_hca.hpp
/// What a context's links share of an HCA: the protection domain and the registrations.

#include "detail/carrier.hpp"

#include <rungs/core/error.hpp>
#include <rungs/verbs/device.hpp>

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>

namespace rungs::transport::detail {

/// An opened device, one protection domain, and a small cache of registrations.
///
/// On hardware a registration pins pages: one that outlives its message could name pages that the
/// program has freed meanwhile, so there it lives as long as a message uses it. The software HCA
/// pins nothing: there the last kIdle stay.
class Hca {
 public:
  explicit Hca(const verbs::Device& device);
  [[nodiscard]] verbs::Device& device() noexcept { return device_; }
  [[nodiscard]] verbs::ProtectionDomain& domain() noexcept { return domain_; }
  /// The registration of that memory; held while the pointer is.
  std::shared_ptr<verbs::MemoryRegion> registered(const Region& region, verbs::Access access);

 private:
  static constexpr std::size_t kIdle = 16;
  struct Entry {
    const std::byte* data;
    std::size_t size_bytes;
    verbs::Access access;
    std::weak_ptr<verbs::MemoryRegion> used;
    std::shared_ptr<verbs::MemoryRegion> kept;  // software HCA only
  };
  verbs::Device device_;
  verbs::ProtectionDomain domain_;
  bool keeps_;
  std::mutex mutex_;
  std::list<Entry> entries_;  // the last used first
};

/// Memory of the link's own, registered as long as this lives.
class RegisteredMemory {
 public:
  RegisteredMemory(Hca& hca, std::size_t size_bytes, verbs::Access access);
  [[nodiscard]] std::byte* data() const noexcept { return memory_.get(); }
  [[nodiscard]] std::uint64_t address(std::size_t offset_bytes) const noexcept {
    return region_.remote_address() + offset_bytes;
  }
  [[nodiscard]] const verbs::MemoryRegion& region() const noexcept { return region_; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  verbs::MemoryRegion region_;
};

/// Posts requests on a queue pair. @throws Error kVerbs saying why not
void post(verbs::QueuePair& pair, std::span<const verbs::SendRequest> requests);
void post(verbs::QueuePair& pair, const verbs::RecvRequest& request);
/// The error that a failed completion means: kRetryExceeded is a lost peer.
Error completion_error(const verbs::Completion& completion);

}  // namespace rungs::transport::detail
