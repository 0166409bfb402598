#pragma once
// Two connected queue pairs on two devices of one process.

#include "provider.hpp"
#include "soft/device.hpp"

#include <rungs/core/error.hpp>
#include <rungs/testing/random.hpp>
#include <rungs/verbs/device.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace rungs::verbs {

// Registered memory, poisoned.
class Memory {
 public:
  Memory(ProtectionDomain& pd, std::size_t size_bytes, Access access = Access::kAll)
      : bytes_(size_bytes, std::byte{0xcd}),
        region_(pd.register_memory(bytes_.data(), size_bytes, access)) {}
  void fill(std::uint64_t seed) {
    testing::Random random(seed);
    for (std::byte& byte : bytes_) byte = static_cast<std::byte>(random.next());
  }
  void fill_zero() { std::fill(bytes_.begin(), bytes_.end(), std::byte{0}); }
  void poison() { std::fill(bytes_.begin(), bytes_.end(), std::byte{0xcd}); }
  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }
  [[nodiscard]] std::byte* data() { return bytes_.data(); }
  template <class T>
  [[nodiscard]] T& at(std::size_t offset) {
    return *reinterpret_cast<T*>(bytes_.data() + offset);
  }
  [[nodiscard]] const MemoryRegion& region() const { return region_; }
  [[nodiscard]] Segment segment(std::size_t offset, std::size_t size) const {
    return region_.segment(offset, size);
  }
  [[nodiscard]] Segment all() const { return segment(0, bytes_.size()); }

 private:
  std::vector<std::byte> bytes_;
  MemoryRegion region_;
};

// A signalled request.
inline SendRequest request(std::uint64_t id, Opcode opcode, std::span<const Segment> segments) {
  SendRequest result;
  result.id = id;
  result.opcode = opcode;
  result.segments = segments;
  return result;
}
// The same, on the peer's memory from `offset` on.
inline SendRequest request(std::uint64_t id, Opcode opcode, std::span<const Segment> segments,
                           const Memory& remote, std::size_t offset = 0) {
  SendRequest result = request(id, opcode, segments);
  result.remote_address = remote.region().remote_address() + offset;
  result.rkey = remote.region().rkey();
  return result;
}

struct EndOptions {
  SoftOptions device;
  QueuePairOptions qp;
  unsigned cq_depth = 512;
  std::optional<std::uint32_t> first_psn;
};

// One device with one queue pair.
class End {
 public:
  explicit End(const EndOptions& options = {})
      : provider_(soft::open(options.device)),
        device(provider_),
        pd(device.alloc_pd()),
        cq_(provider_->create_cq(options.cq_depth)),
        cq(cq_) {
    QueuePairOptions qp_options = options.qp;
    qp_options.send_cq = qp_options.recv_cq = &cq;
    if (options.first_psn) {
      // Only the provider can choose it.
      provider_pd_ = provider_->alloc_pd();
      pd = ProtectionDomain(provider_pd_);
      const std::shared_ptr<provider::QueuePair> made =
          provider_pd_->create_rc(qp_options, cq_, cq_);
      soft::set_first_psn(*made, *options.first_psn);
      qp.emplace(made);
    } else {
      qp.emplace(pd.create_rc(qp_options));
    }
  }
  [[nodiscard]] QpAddress address() const { return qp->address(); }

  PostResult send(const SendRequest& request) { return qp->post_send(request); }
  PostResult receive(std::uint64_t id, std::span<const Segment> segments) {
    return qp->post_recv(RecvRequest{id, segments});
  }
  PostResult receive(std::uint64_t id, const Segment& segment) {
    return receive(id, std::span(&segment, 1));
  }
  Completion wait() { return cq.wait_one(Deadline::after(std::chrono::seconds(30))); }
  // A completion that must be a success.
  Completion done() {
    const Completion completion = wait();
    EXPECT_EQ(completion.status, Status::kSuccess)
        << to_string(completion.status) << " for request " << completion.id;
    return completion;
  }
  [[nodiscard]] std::size_t poll_count() {
    std::array<Completion, 64> out;
    return cq.poll(out);
  }

  [[nodiscard]] bool cq_overflowed() const { return cq_->overflowed(); }

 private:
  std::shared_ptr<provider::Device> provider_;
  std::shared_ptr<provider::ProtectionDomain> provider_pd_;

 public:
  Device device;
  ProtectionDomain pd;

 private:
  std::shared_ptr<provider::CompletionQueue> cq_;

 public:
  CompletionQueue cq;
  std::optional<QueuePair> qp;
};

struct Pair {
  explicit Pair(const EndOptions& of_a = {}) : Pair(of_a, of_a) {}
  Pair(const EndOptions& of_a, const EndOptions& of_b) : a(of_a), b(of_b) {
    QpAddress address_a = a.address();
    QpAddress address_b = b.address();
    a.qp->connect(address_b);
    b.qp->connect(address_a);
  }
  End a;
  End b;
};

// Time-outs of tests: long enough that a busy machine does not make a peer look dead (eight of them
// in a row do), short enough where packets are lost on purpose.
inline constexpr double kPatient = 0.25;
inline constexpr double kLossy = 0.05;

inline EndOptions on(Wire wire, std::uint16_t mtu = 1024) {
  EndOptions options;
  options.qp.ack_timeout_seconds = kPatient;
  options.device.wire = wire;
  options.device.mtu_bytes = mtu;
  return options;
}

inline std::string name_of(Wire wire) { return wire == Wire::kUdp ? "udp" : "shared_memory"; }

}  // namespace rungs::verbs
