#include "ibverbs/translate.hpp"

#include <arpa/inet.h>
#include <cstdint>

namespace rungs::verbs::ibverbs {
namespace {

ibv_wr_opcode to_wr_opcode(Opcode opcode) {
  switch (opcode) {
    case Opcode::kSend:
      return IBV_WR_SEND;
    case Opcode::kSendWithImm:
      return IBV_WR_SEND_WITH_IMM;
    case Opcode::kRdmaWrite:
      return IBV_WR_RDMA_WRITE;
    case Opcode::kRdmaWriteWithImm:
      return IBV_WR_RDMA_WRITE_WITH_IMM;
    case Opcode::kRdmaRead:
      return IBV_WR_RDMA_READ;
    case Opcode::kFetchAdd:
      return IBV_WR_ATOMIC_FETCH_AND_ADD;
    case Opcode::kCompareSwap:
      return IBV_WR_ATOMIC_CMP_AND_SWP;
  }
  return IBV_WR_SEND;
}

}  // namespace

bool is_atomic(Opcode opcode) noexcept {
  return opcode == Opcode::kFetchAdd || opcode == Opcode::kCompareSwap;
}

Status to_status(ibv_wc_status status) noexcept {
  switch (status) {
    case IBV_WC_SUCCESS:
      return Status::kSuccess;
    case IBV_WC_LOC_LEN_ERR:
      return Status::kLocalLength;
    case IBV_WC_LOC_QP_OP_ERR:
      return Status::kLocalQpOperation;
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
      return Status::kLocalProtection;
    case IBV_WC_WR_FLUSH_ERR:
      return Status::kFlushed;
    case IBV_WC_REM_INV_REQ_ERR:
      return Status::kRemoteInvalidRequest;
    case IBV_WC_REM_ACCESS_ERR:
      return Status::kRemoteAccess;
    case IBV_WC_REM_OP_ERR:
      return Status::kRemoteOperation;
    case IBV_WC_RETRY_EXC_ERR:
      return Status::kRetryExceeded;
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return Status::kRnrRetryExceeded;
    default:
      return Status::kInternal;
  }
}

ibv_send_wr to_ibv(const SendRequest& request, std::span<ibv_sge> segments) noexcept {
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const Segment& segment = request.segments[i];
    segments[i] = {reinterpret_cast<std::uintptr_t>(segment.address), segment.size_bytes,
                   segment.lkey};
  }
  ibv_send_wr wr{};
  wr.sg_list = segments.data();
  wr.num_sge = static_cast<int>(segments.size());
  wr.opcode = to_wr_opcode(request.opcode);
  if (request.signalled) wr.send_flags |= IBV_SEND_SIGNALED;
  if (request.inline_data) wr.send_flags |= IBV_SEND_INLINE;
  if (request.fence) wr.send_flags |= IBV_SEND_FENCE;
  wr.imm_data = htonl(request.immediate);
  if (is_atomic(request.opcode)) {
    const bool swap = request.opcode == Opcode::kCompareSwap;
    wr.wr.atomic.remote_addr = request.remote_address;
    wr.wr.atomic.rkey = request.rkey;
    wr.wr.atomic.compare_add = swap ? request.compare : request.add_or_swap;
    wr.wr.atomic.swap = swap ? request.add_or_swap : 0;
  } else {
    wr.wr.rdma.remote_addr = request.remote_address;
    wr.wr.rdma.rkey = request.rkey;
  }
  return wr;
}

}  // namespace rungs::verbs::ibverbs
