#pragma once
// The receiving half of a reliable connection: executes requests, each once and in order, and
// answers them.

#include "hca.hpp"

#include <array>
#include <cstdint>
#include <deque>
#include <optional>

namespace rungs::verbs::soft {

class QpContext;

class Responder {
 public:
  Responder(QpContext& qp, Hca& hca) : qp_(qp), hca_(hca) {}
  void start(std::uint32_t first_psn);
  void receive(const Packet& packet);
  // Sends answers. Whether any went out.
  bool progress();
  // The queue pair failed: completes all receive requests as flushed.
  void flush();

 private:
  // An answer that waits for the wire. Answers leave in the order of their PSNs.
  struct Answer {
    PacketOpcode opcode = PacketOpcode::kAcknowledge;  // or kReadResponseOnly, kAtomicAcknowledge
    std::uint32_t psn = 0;
    std::uint8_t syndrome = kAckSyndrome;
    std::uint64_t original = 0;
    std::uint64_t address = 0;  // reads
    std::uint32_t rkey = 0;
    std::uint64_t length = 0;
    std::uint32_t sent = 0;  // packets
  };
  struct AtomicResult {
    bool valid = false;
    std::uint32_t psn = 0;
    std::uint64_t original = 0;
  };
  enum class Kind : std::uint8_t { kNone, kSend, kWrite };

  void execute_message(const Packet& packet);
  bool begin_write(const Packet& packet);
  bool place_payload(const Packet& packet, Kind kind);
  void execute_read(const Packet& packet);
  void execute_atomic(const Packet& packet);
  void repeat(const Packet& packet);
  void acknowledge(std::uint32_t psn);
  void not_acknowledge(std::uint8_t syndrome);
  void refuse(std::uint8_t nak, std::uint8_t receive_syndrome = mlx5::kFlushError);
  bool send_read_packet(Answer& answer);
  void complete_receive(mlx5::CqeOpcode opcode, std::uint8_t syndrome, std::uint32_t immediate);

  QpContext& qp_;
  Hca& hca_;
  std::uint32_t expected_ = 0;  // PSN
  std::uint32_t msn_ = 0;       // messages executed, 24 bits
  bool nak_sent_ = false;       // for expected_: what follows it is dropped in silence
  Kind message_ = Kind::kNone;  // one that has begun and not ended
  std::uint64_t received_ = 0;  // its bytes so far
  std::uint64_t write_address_ = 0;
  std::uint64_t write_length_ = 0;
  std::uint32_t write_rkey_ = 0;
  bool holds_receive_ = false;
  RecvWqe receive_wqe_;
  std::deque<Answer> answers_;
  std::array<AtomicResult, kMaxOutstandingReads> atomics_;
  std::size_t next_atomic_ = 0;
  std::optional<Answer> last_words_;  // the NAK this queue pair died of
};

}  // namespace rungs::verbs::soft
