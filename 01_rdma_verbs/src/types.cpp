// The words for codes: the IB specification's where it has some.

#include <rungs/verbs/mlx5.hpp>
#include <rungs/verbs/types.hpp>

namespace rungs::verbs {

const char* to_string(Status status) noexcept {
  switch (status) {
    case Status::kSuccess:
      return "success";
    case Status::kLocalLength:
      return "local length error";
    case Status::kLocalQpOperation:
      return "local QP operation error";
    case Status::kLocalProtection:
      return "local protection error";
    case Status::kFlushed:
      return "work request flushed error";
    case Status::kRemoteInvalidRequest:
      return "remote invalid request error";
    case Status::kRemoteAccess:
      return "remote access error";
    case Status::kRemoteOperation:
      return "remote operation error";
    case Status::kRetryExceeded:
      return "transport retry counter exceeded";
    case Status::kRnrRetryExceeded:
      return "receiver-not-ready retry counter exceeded";
    case Status::kInternal:
      return "internal error";
  }
  return "unknown status";
}

const char* to_string(Opcode opcode) noexcept {
  switch (opcode) {
    case Opcode::kSend:
      return "send";
    case Opcode::kSendWithImm:
      return "send with immediate";
    case Opcode::kRdmaWrite:
      return "RDMA write";
    case Opcode::kRdmaWriteWithImm:
      return "RDMA write with immediate";
    case Opcode::kRdmaRead:
      return "RDMA read";
    case Opcode::kFetchAdd:
      return "fetch and add";
    case Opcode::kCompareSwap:
      return "compare and swap";
  }
  return "unknown opcode";
}

const char* to_string(PostError error) noexcept {
  switch (error) {
    case PostError::kNone:
      return "none";
    case PostError::kQueueFull:
      return "queue full: poll completions to free slots (unsignalled requests are freed by that "
             "of a "
             "later signalled one)";
    case PostError::kTooManySegments:
      return "more segments than the queue pair's max_segments";
    case PostError::kInlineTooLong:
      return "inline data longer than the queue pair's max_inline_bytes";
    case PostError::kWrongState:
      return "the queue pair is not connected, or has failed";
    case PostError::kBadRequest:
      return "the request makes no sense: an atomic needs one segment of 8 bytes and an 8-byte "
             "aligned "
             "address, inline data a send or write";
  }
  return "unknown error";
}

Status status_of_syndrome(std::uint8_t syndrome) noexcept {
  switch (syndrome) {
    case mlx5::kLocalLengthError:
      return Status::kLocalLength;
    case mlx5::kLocalQpOperationError:
      return Status::kLocalQpOperation;
    case mlx5::kLocalProtectionError:
    case mlx5::kLocalAccessError:
      return Status::kLocalProtection;
    case mlx5::kFlushError:
      return Status::kFlushed;
    case mlx5::kRemoteInvalidRequestError:
      return Status::kRemoteInvalidRequest;
    case mlx5::kRemoteAccessError:
      return Status::kRemoteAccess;
    case mlx5::kRemoteOperationError:
      return Status::kRemoteOperation;
    case mlx5::kRetryExceededError:
      return Status::kRetryExceeded;
    case mlx5::kRnrRetryExceededError:
      return Status::kRnrRetryExceeded;
    default:
      return Status::kInternal;
  }
}

Opcode opcode_of_wqe(std::uint8_t wqe_opcode) noexcept {
  switch (wqe_opcode) {
    case mlx5::kSendImm:
      return Opcode::kSendWithImm;
    case mlx5::kRdmaWrite:
      return Opcode::kRdmaWrite;
    case mlx5::kRdmaWriteImm:
      return Opcode::kRdmaWriteWithImm;
    case mlx5::kRdmaRead:
      return Opcode::kRdmaRead;
    case mlx5::kAtomicFetchAdd:
      return Opcode::kFetchAdd;
    case mlx5::kAtomicCompareSwap:
      return Opcode::kCompareSwap;
    default:
      return Opcode::kSend;
  }
}

}  // namespace rungs::verbs
