// Our layouts and codes against rdma-core's own header, where it is installed.

#include <rungs/verbs/mlx5.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>

#if __has_include(<infiniband/mlx5dv.h>)
#include <infiniband/mlx5dv.h>
#endif

namespace rungs::verbs {
namespace {

#if __has_include(<infiniband/mlx5dv.h>)

#define SAME_FIELD(ours, our_field, theirs, their_field)                     \
  EXPECT_EQ(offsetof(mlx5::ours, our_field), offsetof(theirs, their_field)); \
  EXPECT_EQ(sizeof(mlx5::ours{}.our_field), sizeof(theirs{}.their_field)) << #our_field

TEST(Mlx5Layout, SegmentsAreThoseOfMlx5dv) {
  EXPECT_EQ(sizeof(mlx5::CtrlSegment), sizeof(mlx5_wqe_ctrl_seg));
  SAME_FIELD(CtrlSegment, opmod_idx_opcode, mlx5_wqe_ctrl_seg, opmod_idx_opcode);
  SAME_FIELD(CtrlSegment, qpn_ds, mlx5_wqe_ctrl_seg, qpn_ds);
  SAME_FIELD(CtrlSegment, signature, mlx5_wqe_ctrl_seg, signature);
  SAME_FIELD(CtrlSegment, fm_ce_se, mlx5_wqe_ctrl_seg, fm_ce_se);
  SAME_FIELD(CtrlSegment, imm, mlx5_wqe_ctrl_seg, imm);
  EXPECT_EQ(sizeof(mlx5::RemoteSegment), sizeof(mlx5_wqe_raddr_seg));
  SAME_FIELD(RemoteSegment, address, mlx5_wqe_raddr_seg, raddr);
  SAME_FIELD(RemoteSegment, rkey, mlx5_wqe_raddr_seg, rkey);
  EXPECT_EQ(sizeof(mlx5::AtomicSegment), sizeof(mlx5_wqe_atomic_seg));
  SAME_FIELD(AtomicSegment, swap_add, mlx5_wqe_atomic_seg, swap_add);
  SAME_FIELD(AtomicSegment, compare, mlx5_wqe_atomic_seg, compare);
  EXPECT_EQ(sizeof(mlx5::DataSegment), sizeof(mlx5_wqe_data_seg));
  SAME_FIELD(DataSegment, byte_count, mlx5_wqe_data_seg, byte_count);
  SAME_FIELD(DataSegment, lkey, mlx5_wqe_data_seg, lkey);
  SAME_FIELD(DataSegment, address, mlx5_wqe_data_seg, addr);
}

TEST(Mlx5Layout, CompletionsAreThoseOfMlx5dv) {
  EXPECT_EQ(sizeof(mlx5::Cqe64), sizeof(mlx5_cqe64));
  SAME_FIELD(Cqe64, imm, mlx5_cqe64, imm_inval_pkey);
  SAME_FIELD(Cqe64, byte_cnt, mlx5_cqe64, byte_cnt);
  SAME_FIELD(Cqe64, sop_drop_qpn, mlx5_cqe64, sop_drop_qpn);
  SAME_FIELD(Cqe64, wqe_counter, mlx5_cqe64, wqe_counter);
  SAME_FIELD(Cqe64, op_own, mlx5_cqe64, op_own);
  SAME_FIELD(Cqe64, vendor_syndrome, mlx5_err_cqe, vendor_err_synd);
  SAME_FIELD(Cqe64, syndrome, mlx5_err_cqe, syndrome);
  SAME_FIELD(Cqe64, sop_drop_qpn, mlx5_err_cqe, s_wqe_opcode_qpn);
  SAME_FIELD(Cqe64, wqe_counter, mlx5_err_cqe, wqe_counter);
}

TEST(Mlx5Layout, CodesAreThoseOfMlx5dv) {
  const auto same = [](unsigned ours, unsigned theirs) { EXPECT_EQ(ours, theirs); };
  same(mlx5::kWqebbBytes, MLX5_SEND_WQE_BB);
  same(mlx5::kInlineFlag, MLX5_INLINE_SEG);
  same(mlx5::kInvalidLkey, MLX5_INVALID_LKEY);
  same(mlx5::kReceiveRecord, MLX5_RCV_DBR);
  same(mlx5::kSendRecord, MLX5_SND_DBR);
  same(mlx5::kSolicited, MLX5_WQE_CTRL_SOLICITED);
  same(mlx5::kCqUpdate, MLX5_WQE_CTRL_CQ_UPDATE);
  same(mlx5::kFence, MLX5_WQE_CTRL_FENCE);
  same(mlx5::kNop, MLX5_OPCODE_NOP);
  same(mlx5::kRdmaWrite, MLX5_OPCODE_RDMA_WRITE);
  same(mlx5::kRdmaWriteImm, MLX5_OPCODE_RDMA_WRITE_IMM);
  same(mlx5::kSend, MLX5_OPCODE_SEND);
  same(mlx5::kSendImm, MLX5_OPCODE_SEND_IMM);
  same(mlx5::kRdmaRead, MLX5_OPCODE_RDMA_READ);
  same(mlx5::kAtomicCompareSwap, MLX5_OPCODE_ATOMIC_CS);
  same(mlx5::kAtomicFetchAdd, MLX5_OPCODE_ATOMIC_FA);
  same(mlx5::kCqeRequest, MLX5_CQE_REQ);
  same(mlx5::kCqeReceiveWriteImm, MLX5_CQE_RESP_WR_IMM);
  same(mlx5::kCqeReceiveSend, MLX5_CQE_RESP_SEND);
  same(mlx5::kCqeReceiveSendImm, MLX5_CQE_RESP_SEND_IMM);
  same(mlx5::kCqeRequestError, MLX5_CQE_REQ_ERR);
  same(mlx5::kCqeReceiveError, MLX5_CQE_RESP_ERR);
  same(mlx5::kCqeInvalid, MLX5_CQE_INVALID);
  same(mlx5::kLocalLengthError, MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR);
  same(mlx5::kLocalQpOperationError, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
  same(mlx5::kLocalProtectionError, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR);
  same(mlx5::kFlushError, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
  same(mlx5::kBadResponseError, MLX5_CQE_SYNDROME_BAD_RESP_ERR);
  same(mlx5::kLocalAccessError, MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR);
  same(mlx5::kRemoteInvalidRequestError, MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR);
  same(mlx5::kRemoteAccessError, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
  same(mlx5::kRemoteOperationError, MLX5_CQE_SYNDROME_REMOTE_OP_ERR);
  same(mlx5::kRetryExceededError, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
  same(mlx5::kRnrRetryExceededError, MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR);
}

// rdma-core's own helper writes the control segment that this one must be able to read.
TEST(Mlx5Layout, ControlSegmentReadsAsMlx5dvWritesIt) {
  mlx5_wqe_ctrl_seg theirs;
  mlx5dv_set_ctrl_seg(&theirs, 0xabcd, MLX5_OPCODE_RDMA_READ, 0, 0x123456, MLX5_WQE_CTRL_CQ_UPDATE,
                      5, 0, 0);
  mlx5::CtrlSegment ours;
  std::memcpy(&ours, &theirs, sizeof ours);
  EXPECT_EQ(mlx5::be32(ours.opmod_idx_opcode), 0xabcdu << 8 | mlx5::kRdmaRead);
  EXPECT_EQ(mlx5::be32(ours.qpn_ds), 0x123456u << 8 | 5u);
  EXPECT_EQ(ours.fm_ce_se, mlx5::kCqUpdate);
}

#else

TEST(Mlx5Layout, SegmentsAreThoseOfMlx5dv) {
  GTEST_SKIP() << "infiniband/mlx5dv.h is not installed (libibverbs-dev): sizes and offsets are "
                  "pinned by mlx5.hpp's own static_asserts only";
}

#endif

TEST(Mlx5Layout, ByteOrderHelpersSwap) {
  EXPECT_EQ(mlx5::be16(0x1234), 0x3412);
  EXPECT_EQ(mlx5::be32(0x12345678), 0x78563412u);
  EXPECT_EQ(mlx5::be64(0x0123456789abcdef), 0xefcdab8967452301u);
}

}  // namespace
}  // namespace rungs::verbs
