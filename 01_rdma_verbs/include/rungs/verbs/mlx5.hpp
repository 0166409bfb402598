#pragma once
/// @file mlx5.hpp
/// The queues of a ConnectX HCA as they lie in memory: what a driver, on the CPU or in a GPU
/// kernel, writes and reads. Names and values follow rdma-core's mlx5dv.h; a test compares the two.
/// Plain C++: kernel sources may include it.
///
/// Fields marked BE are big endian. A send-queue entry (WQE) is a row of 16-byte segments that
/// fills whole 64-byte blocks (WQEBB); both queue and entry wrap at the end of the ring:
///
///     send, write   ctrl [raddr] data... | ctrl [raddr] inline
///     read          ctrl raddr data...
///     atomic        ctrl raddr atomic data
///
/// A receive-queue entry is a row of data segments, ended by the lkey kInvalidLkey if shorter than
/// its stride.

#include <rungs/config.hpp>
#include <rungs/core/dtype.hpp>

#include <cstddef>
#include <cstdint>

namespace rungs::verbs::mlx5 {

inline constexpr std::uint32_t kWqebbBytes = 64;
inline constexpr std::uint32_t kSegmentBytes = 16;
inline constexpr std::uint32_t kMaxWqeSegments = 63;  ///< `ds` has 6 bits
inline constexpr std::uint32_t kInlineFlag = 0x80000000u;
inline constexpr std::uint32_t kInvalidLkey = 0x100;

/// Opcodes of WQEs: the low byte of the control segment's first word.
enum WqeOpcode : std::uint8_t {
  kNop = 0x00,
  kRdmaWrite = 0x08,
  kRdmaWriteImm = 0x09,
  kSend = 0x0a,
  kSendImm = 0x0b,
  kRdmaRead = 0x10,
  kAtomicCompareSwap = 0x11,
  kAtomicFetchAdd = 0x12,
};

/// Bits of CtrlSegment::fm_ce_se.
enum CtrlFlags : std::uint8_t {
  kSolicited = 1 << 1,
  kCqUpdate = 2 << 2,  ///< write a completion
  kFence = 4 << 5,     ///< wait for earlier reads and atomics
};

/// Every WQE's first 16 bytes. The first 8 are also what the doorbell register is given.
struct CtrlSegment {
  std::uint32_t opmod_idx_opcode;  ///< BE: opmod << 24 | WQEBB index, 16 bits << 8 | opcode
  std::uint32_t qpn_ds;            ///< BE: queue pair << 8 | segments of this WQE
  std::uint8_t signature;
  std::uint8_t reserved[2];
  std::uint8_t fm_ce_se;
  std::uint32_t imm;  ///< BE
};

/// Where at the peer: reads, writes, atomics.
struct RemoteSegment {
  std::uint64_t address;  ///< BE
  std::uint32_t rkey;     ///< BE
  std::uint32_t reserved;
};

struct AtomicSegment {
  std::uint64_t swap_add;  ///< BE
  std::uint64_t compare;   ///< BE
};

/// A piece of local memory.
struct DataSegment {
  std::uint32_t byte_count;  ///< BE; with kInlineFlag set the bytes themselves follow it
  std::uint32_t lkey;        ///< BE
  std::uint64_t address;     ///< BE
};

/// Opcodes of CQEs: the high half of Cqe64::op_own.
enum CqeOpcode : std::uint8_t {
  kCqeRequest = 0,
  kCqeReceiveWriteImm = 1,
  kCqeReceiveSend = 2,
  kCqeReceiveSendImm = 3,
  kCqeRequestError = 13,
  kCqeReceiveError = 14,
  kCqeInvalid = 15,  ///< the HCA has never written this entry
};

/// Cqe64::syndrome of the two error opcodes.
enum CqeSyndrome : std::uint8_t {
  kSyndromeNone = 0x00,
  kLocalLengthError = 0x01,
  kLocalQpOperationError = 0x02,
  kLocalProtectionError = 0x04,
  kFlushError = 0x05,
  kBadResponseError = 0x10,
  kLocalAccessError = 0x11,
  kRemoteInvalidRequestError = 0x12,
  kRemoteAccessError = 0x13,
  kRemoteOperationError = 0x14,
  kRetryExceededError = 0x15,
  kRnrRetryExceededError = 0x16,
};

/// A completion. Software owns entry n of a ring of N (a power of two) when its opcode is not
/// kCqeInvalid and its lowest bit equals bit log2(N) of n: the HCA writes the first 60 bytes first
/// and the last four, in one store, last. So the test is an acquire load of that word: CqeEnd.
struct Cqe64 {
  std::uint8_t reserved_0[36];
  std::uint32_t imm;  ///< BE
  std::uint8_t reserved_40[4];
  std::uint32_t byte_cnt;  ///< BE: received, read or fetched
  std::uint8_t reserved_48[6];
  std::uint8_t vendor_syndrome;  ///< error opcodes only (a time stamp otherwise)
  std::uint8_t syndrome;         ///< error opcodes only
  std::uint32_t sop_drop_qpn;    ///< BE: WQE opcode << 24 (send side) | queue pair
  std::uint16_t wqe_counter;     ///< BE: first WQEBB of the WQE; receive side: its entry
  std::uint8_t signature;
  std::uint8_t op_own;  ///< opcode << 4 | owner bit
};

static_assert(sizeof(CtrlSegment) == 16 && offsetof(CtrlSegment, fm_ce_se) == 11 &&
              offsetof(CtrlSegment, imm) == 12);
static_assert(sizeof(RemoteSegment) == 16 && offsetof(RemoteSegment, rkey) == 8);
static_assert(sizeof(AtomicSegment) == 16 && offsetof(AtomicSegment, compare) == 8);
static_assert(sizeof(DataSegment) == 16 && offsetof(DataSegment, lkey) == 4 &&
              offsetof(DataSegment, address) == 8);
static_assert(sizeof(Cqe64) == 64 && offsetof(Cqe64, imm) == 36 &&
              offsetof(Cqe64, byte_cnt) == 44 && offsetof(Cqe64, vendor_syndrome) == 54 &&
              offsetof(Cqe64, syndrome) == 55 && offsetof(Cqe64, sop_drop_qpn) == 56 &&
              offsetof(Cqe64, wqe_counter) == 60 && offsetof(Cqe64, op_own) == 63);

/// The last word of a CQE, taken apart.
struct CqeEnd {
  std::uint8_t opcode;        ///< CqeOpcode
  std::uint8_t owner;         ///< 0 or 1
  std::uint16_t wqe_counter;  ///< in host byte order
};
inline constexpr std::size_t kCqeEndOffset = offsetof(Cqe64, wqe_counter);
/// That word, for an atomic access.
RUNGS_HD std::uint32_t* end_word(Cqe64* cqe) noexcept {
  return reinterpret_cast<std::uint32_t*>(reinterpret_cast<std::byte*>(cqe) + kCqeEndOffset);
}
RUNGS_HD const std::uint32_t* end_word(const Cqe64* cqe) noexcept {
  return reinterpret_cast<const std::uint32_t*>(reinterpret_cast<const std::byte*>(cqe) +
                                                kCqeEndOffset);
}
/// @param word as a little-endian machine loads it
RUNGS_HD constexpr CqeEnd cqe_end(std::uint32_t word) noexcept {
  return {static_cast<std::uint8_t>(word >> 28), static_cast<std::uint8_t>(word >> 24 & 1),
          static_cast<std::uint16_t>((word & 0xff) << 8 | (word >> 8 & 0xff))};
}

/// Which word of a queue pair's doorbell record is whose. Each holds, BE, the 16-bit count of
/// entries (receive) or WQEBBs (send) posted so far.
enum DoorbellRecord : unsigned { kReceiveRecord = 0, kSendRecord = 1 };
/// A completion queue's doorbell record: word 0 holds, BE, the 24-bit count of entries consumed;
/// word 1 arms events, which the software HCA does not have.
enum CqDoorbellRecord : unsigned { kCqConsumerRecord = 0, kCqArmRecord = 1 };

/// Host ↔ big endian, either way.
RUNGS_HD constexpr std::uint16_t be16(std::uint16_t v) noexcept {
  return static_cast<std::uint16_t>(v << 8 | v >> 8);
}
RUNGS_HD constexpr std::uint32_t be32(std::uint32_t v) noexcept {
  return v << 24 | (v & 0xff00u) << 8 | (v >> 8 & 0xff00u) | v >> 24;
}
RUNGS_HD constexpr std::uint64_t be64(std::uint64_t v) noexcept {
  return std::uint64_t{be32(static_cast<std::uint32_t>(v))} << 32 |
         be32(static_cast<std::uint32_t>(v >> 32));
}

/// A queue pair's memory, for code that writes WQEs itself, such as a GPU kernel. To post: write
/// the WQE; store the new count into the send record (release); store the 8 bytes of the last WQE's
/// control segment to the doorbell (release; its queue pair and any index will do). Such code owns
/// the send queue: do not mix it with post_send().
struct RawQueuePair {
  std::uint32_t qp_number = 0;
  void* send_queue = nullptr;
  std::uint32_t send_wqebbs = 0;  ///< a power of two
  void* receive_queue = nullptr;
  std::uint32_t receive_entries = 0;  ///< a power of two
  std::uint32_t receive_stride_bytes = 0;
  std::uint32_t* doorbell_record = nullptr;  ///< 2 words, see DoorbellRecord
  std::uint64_t* doorbell = nullptr;         ///< the register
  /// What the bus does when a hardware register is written: wakes the device, if it sleeps. For
  /// DoorbellWriter::kWakes, after the store to the register: wake(wake_context). Any thread.
  void (*wake)(void* wake_context) = nullptr;
  void* wake_context = nullptr;
  void* memory = nullptr;  ///< whole pages, in which all of the above lies
  std::size_t memory_bytes = 0;
};

/// Who rings the doorbell of a raw queue.
enum class DoorbellWriter {
  kSilent,  ///< a GPU, which cannot call the host: from now on the device looks every 50 µs
  kWakes,   ///< the host or an emulated GPU: calls RawQueuePair::wake after each store
};

/// A completion queue's memory, for code that polls it itself: do not mix it with poll().
struct RawCompletionQueue {
  Cqe64* entries = nullptr;
  std::uint32_t entry_count = 0;             ///< a power of two
  std::uint32_t* doorbell_record = nullptr;  ///< 2 words, see CqDoorbellRecord
  void* memory = nullptr;                    ///< whole pages, in which all of the above lies
  std::size_t memory_bytes = 0;
};

}  // namespace rungs::verbs::mlx5
