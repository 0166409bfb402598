#include "ibverbs/objects.hpp"
#include "ibverbs/translate.hpp"
#include "timers.hpp"

#include <rungs/core/deadline.hpp>
#include <rungs/core/error.hpp>

#include <arpa/inet.h>
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <random>

namespace rungs::verbs::ibverbs {
namespace {

constexpr std::uint8_t kMostReads = 16;  // reads and atomics under way, either side
constexpr std::uint64_t kRecvBit = 1;    // of a wr_id: the request was a receive

Handle<ibv_qp, ibv_destroy_qp> make_qp(ibv_pd* pd, const QueuePairOptions& options, ibv_cq* send_cq,
                                       ibv_cq* recv_cq) {
  ibv_qp_init_attr attributes{};
  attributes.send_cq = send_cq;
  attributes.recv_cq = recv_cq;
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap.max_send_wr = std::bit_ceil(options.send_depth);
  attributes.cap.max_recv_wr = std::bit_ceil(options.recv_depth);
  attributes.cap.max_send_sge = attributes.cap.max_recv_sge = options.max_segments;
  attributes.cap.max_inline_data = options.max_inline_bytes;
  return Handle<ibv_qp, ibv_destroy_qp>(ibv_create_qp(pd, &attributes));
}

}  // namespace

QueuePair::QueuePair(std::shared_ptr<ProtectionDomainHandle> pd, const QueuePairOptions& options,
                     std::shared_ptr<CompletionQueue> send_cq,
                     std::shared_ptr<CompletionQueue> recv_cq)
    : pd_(std::move(pd)),
      send_cq_(std::move(send_cq)),
      recv_cq_(std::move(recv_cq)),
      options_(options),
      handle_(make_qp(pd_->handle.get(), options, send_cq_->get(), recv_cq_->get())),
      first_psn_(std::random_device{}() & 0xffffff),
      send_(std::bit_ceil(options.send_depth), options.max_segments),
      recv_(std::bit_ceil(options.recv_depth), options.max_segments),
      send_list_(send_.entries.size()),
      recv_list_(recv_.entries.size()) {
  if (!handle_) {
    ibverbs::fail(*pd_->context, "ibv_create_qp", errno,
                  "; fewer or smaller requests may fit: depth × (segments, inline bytes)");
  }
  // RESET → INIT at once: receive requests may be posted from here on.
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = kPort;
  attributes.qp_access_flags =
      IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  modify(attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "INIT");
  send_cq_->attach(*this);
  recv_cq_->attach(*this);
}

QueuePair::~QueuePair() {
  send_cq_->detach(*this);
  recv_cq_->detach(*this);
}

void QueuePair::modify(ibv_qp_attr& attributes, int mask, const char* what) {
  if (const int reason = ibv_modify_qp(handle_.get(), &attributes, mask)) {
    ibverbs::fail(*pd_->context, concat("ibv_modify_qp to ", what).c_str(), reason);
  }
}

QpAddress QueuePair::address() const {
  const Context& context = *pd_->context;
  QpAddress result;
  result.gid = context.gid;
  result.qp_number = number();
  result.first_psn = first_psn_;
  result.udp_port = context.is_ethernet() ? kRoceUdpPort : 0;
  result.mtu_bytes = static_cast<std::uint16_t>(context.info.mtu_bytes);
  result.lid = context.port.lid;
  return result;
}

void QueuePair::connect(const QpAddress& remote) {
  const Context& context = *pd_->context;
  RUNGS_REQUIRE(!connected_ && !failed_, "connect queue pair ", number(),
                ": it is already connected or failed");
  RUNGS_REQUIRE(context.is_ethernet() ? remote.gid != Gid{} : remote.lid != 0,
                "connect queue pair ", number(), ": the peer's address has no ",
                context.is_ethernet() ? "Gid" : "LID", ": it is no peer of ", context.info.name);
  const std::uint32_t mtu = std::min<std::uint32_t>(remote.mtu_bytes, context.info.mtu_bytes);
  RUNGS_REQUIRE(mtu >= 256 && mtu <= 4096 && std::has_single_bit(mtu), "connect queue pair ",
                number(), ": MTU ", mtu, ": use 256, 512, 1024, 2048 or 4096");
  const auto reads = static_cast<std::uint8_t>(std::min<int>(
      kMostReads, std::min(context.limits.max_qp_rd_atom, context.limits.max_qp_init_rd_atom)));

  // INIT → RTR: what the responder needs.
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = static_cast<ibv_mtu>(std::countr_zero(mtu) - 7);  // IBV_MTU_256 is 1
  attributes.dest_qp_num = remote.qp_number;
  attributes.rq_psn = remote.first_psn;
  attributes.max_dest_rd_atomic = reads;
  attributes.min_rnr_timer = rnr_timer_code(options_.rnr_timer_seconds);
  attributes.ah_attr.port_num = kPort;
  attributes.ah_attr.dlid = static_cast<std::uint16_t>(remote.lid);
  if (context.is_ethernet()) {
    attributes.ah_attr.is_global = 1;
    std::memcpy(attributes.ah_attr.grh.dgid.raw, remote.gid.data(), remote.gid.size());
    attributes.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(context.gid_index);
    attributes.ah_attr.grh.hop_limit = 64;
  }
  modify(attributes,
         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
         "RTR");

  // RTR → RTS: what the requester needs.
  attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = first_psn_;
  attributes.timeout = ack_timeout_code(options_.ack_timeout_seconds * timeout_scale());
  attributes.retry_cnt = options_.retry_count;
  attributes.rnr_retry = options_.rnr_retry_count;
  attributes.max_rd_atomic = reads;
  modify(attributes,
         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
             IBV_QP_MAX_QP_RD_ATOMIC,
         "RTS");
  connected_ = true;
}

std::size_t QueuePair::send_slots_free() const noexcept { return send_.free_slots(); }

void QueuePair::fail() noexcept {
  failed_ = true;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  ibv_modify_qp(handle_.get(), &attributes, IBV_QP_STATE);
}

PostError QueuePair::check(const SendRequest& request) const noexcept {
  if (request.segments.size() > options_.max_segments) return PostError::kTooManySegments;
  std::uint64_t bytes = 0;
  for (const Segment& segment : request.segments) bytes += segment.size_bytes;
  const bool atomic = is_atomic(request.opcode);
  if (atomic && (request.segments.size() != 1 || bytes != 8 || request.remote_address % 8 != 0)) {
    return PostError::kBadRequest;
  }
  if (!request.inline_data) return PostError::kNone;
  if (atomic || request.opcode == Opcode::kRdmaRead) return PostError::kBadRequest;
  return bytes > options_.max_inline_bytes ? PostError::kInlineTooLong : PostError::kNone;
}

PostResult QueuePair::post_send(std::span<const SendRequest> requests) noexcept {
  if (!connected_ || failed_) return {0, PostError::kWrongState};
  PostResult result;
  std::size_t segments_used = 0;
  const std::size_t room = send_.free_slots();
  for (const SendRequest& request : requests) {
    result.error = result.posted == room ? PostError::kQueueFull : check(request);
    if (result.error != PostError::kNone) break;
    const std::uint64_t position = send_.head + result.posted;
    ibv_send_wr& wr = send_list_[result.posted];
    const std::span segments(send_.segments.data() + segments_used, request.segments.size());
    wr = to_ibv(request, segments);
    wr.wr_id = position << 1;
    if (result.posted > 0) send_list_[result.posted - 1].next = &wr;
    send_.at(position) = {request.id, request.opcode};
    segments_used += segments.size();
    ++result.posted;
  }
  if (result.posted == 0) return result;
  ibv_send_wr* refused = nullptr;
  if (const int reason = ibv_post_send(handle_.get(), send_list_.data(), &refused)) {
    result.posted = static_cast<std::size_t>(refused - send_list_.data());
    result.error = reason == ENOMEM ? PostError::kQueueFull : PostError::kBadRequest;
  }
  send_.head += result.posted;
  return result;
}

PostResult QueuePair::post_recv(std::span<const RecvRequest> requests) noexcept {
  if (failed_) return {0, PostError::kWrongState};
  PostResult result;
  std::size_t segments_used = 0;
  const std::size_t room = recv_.free_slots();
  for (const RecvRequest& request : requests) {
    result.error = result.posted == room ? PostError::kQueueFull : PostError::kNone;
    if (request.segments.size() > options_.max_segments) {
      result.error = PostError::kTooManySegments;
    }
    if (result.error != PostError::kNone) break;
    const std::uint64_t position = recv_.head + result.posted;
    ibv_recv_wr& wr = recv_list_[result.posted];
    wr = {};
    wr.wr_id = position << 1 | kRecvBit;
    wr.sg_list = recv_.segments.data() + segments_used;
    wr.num_sge = static_cast<int>(request.segments.size());
    for (const Segment& segment : request.segments) {
      recv_.segments[segments_used++] = {reinterpret_cast<std::uintptr_t>(segment.address),
                                         segment.size_bytes, segment.lkey};
    }
    if (result.posted > 0) recv_list_[result.posted - 1].next = &wr;
    recv_.at(position).id = request.id;
    ++result.posted;
  }
  if (result.posted == 0) return result;
  ibv_recv_wr* refused = nullptr;
  if (const int reason = ibv_post_recv(handle_.get(), recv_list_.data(), &refused)) {
    result.posted = static_cast<std::size_t>(refused - recv_list_.data());
    result.error = reason == ENOMEM ? PostError::kQueueFull : PostError::kBadRequest;
  }
  recv_.head += result.posted;
  return result;
}

Completion QueuePair::complete(const ibv_wc& wc) noexcept {
  Completion result;
  result.receive = (wc.wr_id & kRecvBit) != 0;
  const std::uint64_t position = wc.wr_id >> 1;
  Ring& ring = result.receive ? recv_ : send_;
  result.id = ring.at(position).id;
  result.opcode = ring.at(position).opcode;
  result.status = to_status(wc.status);
  result.qp_number = number();
  result.vendor_syndrome = static_cast<std::uint8_t>(wc.vendor_err);
  ring.tail.store(position + 1, std::memory_order_release);
  if (wc.status != IBV_WC_SUCCESS) {
    failed_ = true;
    return result;
  }
  const bool has_immediate = (wc.wc_flags & IBV_WC_WITH_IMM) != 0;
  if (result.receive) {
    result.opcode = has_immediate ? Opcode::kSendWithImm : Opcode::kSend;
    if (wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM) result.opcode = Opcode::kRdmaWriteWithImm;
    result.immediate = has_immediate ? ntohl(wc.imm_data) : 0;
  }
  if (result.receive || result.opcode == Opcode::kRdmaRead || is_atomic(result.opcode)) {
    result.size_bytes = wc.byte_len;
  }
  return result;
}

}  // namespace rungs::verbs::ibverbs
