#include "device.hpp"

#include "completion_queue.hpp"
#include "queue_pair.hpp"

#include <rungs/core/error.hpp>

#include <bit>
#include <random>

namespace rungs::verbs::soft {
namespace {

constexpr double kShortestTimeout = 1e-5;

void check(const SoftOptions& options) {
  RUNGS_REQUIRE(valid_mtu(options.mtu_bytes), "soft HCA: MTU ", options.mtu_bytes,
                ": use 256, 512, 1024, 2048 or 4096");
  const auto share = [](double value, const char* name) {
    RUNGS_REQUIRE(value >= 0 && value <= 0.9, "soft HCA: ", name, " ", value,
                  ": a share of packets from 0 to 0.9");
  };
  share(options.loss, "loss");
  share(options.duplicate, "duplicate");
  share(options.reorder, "reorder");
  RUNGS_REQUIRE(options.delay_seconds >= 0 && options.delay_seconds <= 10,
                "soft HCA: delay_seconds ", options.delay_seconds, ": from 0 to 10");
}

class SoftMemoryRegion final : public provider::MemoryRegion {
 public:
  SoftMemoryRegion(std::shared_ptr<SoftDevice> device, std::uint32_t pd, void* memory,
                   std::size_t bytes, Access access)
      : device_(std::move(device)) {
    data = memory;
    size_bytes = bytes;
    const Engine::Pause pause(device_->engine);
    lkey = rkey = device_->engine.hca().keys.add(pd, memory, bytes, access);
  }
  ~SoftMemoryRegion() override {
    const Engine::Pause pause(device_->engine);
    device_->engine.hca().keys.remove(lkey);
  }
  SoftMemoryRegion(const SoftMemoryRegion&) = delete;
  SoftMemoryRegion& operator=(const SoftMemoryRegion&) = delete;

 private:
  std::shared_ptr<SoftDevice> device_;
};

class SoftProtectionDomain final : public provider::ProtectionDomain {
 public:
  explicit SoftProtectionDomain(std::shared_ptr<SoftDevice> device) : device_(std::move(device)) {
    const Engine::Pause pause(device_->engine);
    id_ = device_->new_pd();
  }
  std::shared_ptr<provider::MemoryRegion> register_memory(void* data, std::size_t size_bytes,
                                                          Access access) override {
    return std::make_shared<SoftMemoryRegion>(device_, id_, data, size_bytes, access);
  }
  std::shared_ptr<provider::QueuePair> create_rc(
      const QueuePairOptions& options, std::shared_ptr<provider::CompletionQueue> send_cq,
      std::shared_ptr<provider::CompletionQueue> recv_cq) override;

 private:
  std::shared_ptr<SoftCompletionQueue> own(const std::shared_ptr<provider::CompletionQueue>& cq) {
    auto mine = std::dynamic_pointer_cast<SoftCompletionQueue>(cq);
    RUNGS_REQUIRE(mine && mine->device() == device_.get(),
                  "create_rc: the completion queue belongs to another device than ",
                  device_->info.name);
    return mine;
  }

  std::shared_ptr<SoftDevice> device_;
  std::uint32_t id_ = 0;
};

std::shared_ptr<provider::QueuePair> SoftProtectionDomain::create_rc(
    const QueuePairOptions& options, std::shared_ptr<provider::CompletionQueue> send_cq,
    std::shared_ptr<provider::CompletionQueue> recv_cq) {
  RUNGS_REQUIRE(
      options.ack_timeout_seconds >= kShortestTimeout && options.ack_timeout_seconds <= 3600,
      "create_rc: ack_timeout_seconds ", options.ack_timeout_seconds, ": from 10 µs to an hour");
  RUNGS_REQUIRE(options.rnr_timer_seconds >= 0 && options.rnr_timer_seconds <= 0.65536,
                "create_rc: rnr_timer_seconds ", options.rnr_timer_seconds, ": from 0 to 0.65536");
  return std::make_shared<SoftQueuePair>(device_, id_, shape_of(options), options, own(send_cq),
                                         own(recv_cq));
}

}  // namespace

std::shared_ptr<provider::ProtectionDomain> SoftDevice::alloc_pd() {
  return std::make_shared<SoftProtectionDomain>(shared_from_this());
}

std::shared_ptr<provider::CompletionQueue> SoftDevice::create_cq(unsigned depth) {
  return std::make_shared<SoftCompletionQueue>(shared_from_this(), std::bit_ceil(depth));
}

bool valid_mtu(std::uint32_t mtu) {
  return mtu == 256 || mtu == 512 || mtu == 1024 || mtu == 2048 || mtu == 4096;
}

std::uint32_t random_24_bits() { return std::random_device{}() & kPsnMask; }

DeviceInfo describe(const SoftOptions& options) {
  DeviceInfo info;
  info.name = "soft0";
  info.provider = "soft";
  info.wire = options.wire == Wire::kUdp ? "RoCE v2 over UDP" : "shared memory";
  info.emulated = true;
  info.max_queue_depth = kMaxQueueDepth;
  info.max_segments = kMaxSegments;
  info.max_inline_bytes = kMaxInlineBytes;
  info.mtu_bytes = options.mtu_bytes;
  return info;
}

std::shared_ptr<provider::Device> open(const SoftOptions& options) {
  check(options);
  return std::make_shared<SoftDevice>(options);
}

}  // namespace rungs::verbs::soft
