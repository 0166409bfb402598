#include "queue_pair.hpp"

#include "timers.hpp"

#include <rungs/core/error.hpp>

#include <algorithm>
#include <bit>

namespace rungs::verbs::soft {
namespace {

bool is_ipv4(const Gid& gid) {
  return std::all_of(gid.begin(), gid.begin() + 10, [](auto byte) { return byte == 0; }) &&
         gid[10] == 0xff && gid[11] == 0xff;
}

}  // namespace

QueueShape shape_of(const QueuePairOptions& options) {
  QueueShape shape;
  shape.max_segments = options.max_segments;
  shape.max_inline_bytes = options.max_inline_bytes;
  shape.send_requests = std::bit_ceil(options.send_depth);
  shape.recv_requests = std::bit_ceil(options.recv_depth);
  shape.recv_stride_bytes = std::bit_ceil(options.max_segments) * mlx5::kSegmentBytes;
  // The longest WQE: control, remote address, and the longer of atomic + data, all data segments,
  // inline data with its length.
  const std::uint32_t inline_segments =
      (options.max_inline_bytes + 4 + mlx5::kSegmentBytes - 1) / mlx5::kSegmentBytes;
  const std::uint32_t segments = 2 + std::max({2u, options.max_segments, inline_segments});
  const std::uint32_t wqebbs =
      (segments * mlx5::kSegmentBytes + mlx5::kWqebbBytes - 1) / mlx5::kWqebbBytes;
  // A ring holds the longest WQE that a control segment can describe.
  constexpr std::uint32_t kSmallestRing =
      (mlx5::kMaxWqeSegments + 1) * mlx5::kSegmentBytes / mlx5::kWqebbBytes;
  shape.send_wqebbs = std::max(kSmallestRing, std::bit_ceil(shape.send_requests * wqebbs));
  RUNGS_REQUIRE(shape.send_wqebbs <= kMaxSendWqebbs, "create_rc: send_depth ", options.send_depth,
                " of up to ", wqebbs, " WQEBBs each does not fit a send queue of ", kMaxSendWqebbs,
                ": lower send_depth, max_segments or max_inline_bytes");
  return shape;
}

SoftQueuePair::SoftQueuePair(std::shared_ptr<SoftDevice> device, std::uint32_t pd,
                             const QueueShape& shape, const QueuePairOptions& options,
                             std::shared_ptr<SoftCompletionQueue> send_cq,
                             std::shared_ptr<SoftCompletionQueue> recv_cq)
    : device_(std::move(device)),
      send_cq_(std::move(send_cq)),
      recv_cq_(std::move(recv_cq)),
      shape_(shape),
      memory_(send_offset() + shape.send_bytes() + 2 * kLineBytes),
      first_psn_(random_24_bits()) {
  const Engine::Pause pause(device_->engine);
  const std::uint32_t number = device_->new_qp_number();
  rings_ = std::make_shared<QpRings>(shape, number, send_ring(), memory_.data(), record(),
                                     doorbell(), device_->engine);
  QpSettings settings;
  settings.number = number;
  settings.pd = pd;
  settings.retry_count = options.retry_count;
  settings.rnr_retry_count = options.rnr_retry_count;
  settings.ack_timeout = to_duration(options.ack_timeout_seconds * timeout_scale());
  settings.rnr_timer_code = rnr_timer_code(options.rnr_timer_seconds);
  context_.emplace(
      device_->engine.hca(), settings,
      SendQueue(send_ring(), shape.send_wqebbs, number, record(), doorbell()),
      RecvQueue(memory_.data(), shape.recv_requests, shape.recv_stride_bytes, record()),
      send_cq_->writer, recv_cq_->writer);
  send_cq_->ring.attach(number, rings_);
  if (recv_cq_ != send_cq_) recv_cq_->ring.attach(number, rings_);
  device_->engine.add(*context_);
}

SoftQueuePair::~SoftQueuePair() {
  {
    const Engine::Pause pause(device_->engine);
    device_->engine.remove(*context_);
  }
  send_cq_->ring.detach(number());
  recv_cq_->ring.detach(number());
}

QpAddress SoftQueuePair::address() const {
  const WireAddress local = device_->engine.hca().wire->local();
  QpAddress result;
  result.gid = local.gid;
  result.qp_number = number();
  result.first_psn = first_psn_;
  result.udp_port = local.udp_port;
  result.mtu_bytes = device_->options.mtu_bytes;
  return result;
}

void SoftQueuePair::connect(const QpAddress& remote) {
  const std::string who = concat("connect queue pair ", number());
  RUNGS_REQUIRE(context_->state() == QpState::kReset, who, ": it is already connected or failed");
  RUNGS_REQUIRE(
      remote.qp_number >= 2 && remote.qp_number <= 0xffffff && valid_mtu(remote.mtu_bytes), who,
      ": queue pair ", remote.qp_number, " with MTU ", remote.mtu_bytes,
      " is no peer's address: pass what the peer's address() returned");
  const bool udp = device_->options.wire == Wire::kUdp;
  RUNGS_REQUIRE(is_ipv4(remote.gid) == udp, who,
                ": the peer's device is not on this device's wire, ", device_->info.wire);
  RUNGS_REQUIRE(!udp || remote.udp_port != 0, who, ": the peer's address has no UDP port");
  Connection to;
  to.peer = {remote.gid, remote.udp_port};
  to.remote_qp = remote.qp_number;
  to.mtu = std::min(remote.mtu_bytes, device_->options.mtu_bytes);
  const Engine::Pause pause(device_->engine);
  device_->engine.hca().wire->connect(to.peer);
  context_->connect(to, first_psn_, remote.first_psn);
}

PostResult SoftQueuePair::post_send(std::span<const SendRequest> requests) noexcept {
  if (context_->state() != QpState::kReady) return {0, PostError::kWrongState};
  PostResult result;
  for (const SendRequest& request : requests) {
    result.error = rings_->send.put(request);
    if (result.error != PostError::kNone) break;
    ++result.posted;
  }
  if (result.posted > 0) rings_->send.ring_doorbell();
  return result;
}

PostResult SoftQueuePair::post_recv(std::span<const RecvRequest> requests) noexcept {
  if (failed()) return {0, PostError::kWrongState};
  PostResult result;
  for (const RecvRequest& request : requests) {
    result.error = rings_->recv.put(request);
    if (result.error != PostError::kNone) break;
    ++result.posted;
  }
  rings_->recv.ring_doorbell();
  if (failed()) {  // while this was posted: nobody else would flush it
    const Engine::Pause pause(device_->engine);
    context_->responder.flush();
  }
  return result;
}

void SoftQueuePair::fail() noexcept {
  const Engine::Pause pause(device_->engine);
  context_->fail();
}

mlx5::RawQueuePair SoftQueuePair::raw_queue(mlx5::DoorbellWriter writer) {
  const Engine::Pause pause(device_->engine);
  if (writer == mlx5::DoorbellWriter::kSilent) device_->engine.expect_silent_doorbells();
  mlx5::RawQueuePair raw;
  raw.qp_number = number();
  raw.send_queue = send_ring();
  raw.send_wqebbs = shape_.send_wqebbs;
  raw.receive_queue = memory_.data();
  raw.receive_entries = shape_.recv_requests;
  raw.receive_stride_bytes = shape_.recv_stride_bytes;
  raw.doorbell_record = record();
  raw.doorbell = doorbell();
  raw.wake = [](void* engine) { static_cast<Engine*>(engine)->raw_doorbell_written(); };
  raw.wake_context = &device_->engine;
  raw.memory = memory_.data();
  raw.memory_bytes = memory_.size_bytes();
  return raw;
}

void set_first_psn(provider::QueuePair& qp, std::uint32_t psn) {
  dynamic_cast<SoftQueuePair&>(qp).set_first_psn(psn);
}

}  // namespace rungs::verbs::soft
