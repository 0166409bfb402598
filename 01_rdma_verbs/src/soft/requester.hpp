#pragma once
// The sending half of a reliable connection: turns WQEs into packets, keeps them until they are
// acknowledged, sends again what was lost.
//
//     una_             first PSN without an answer; always in the front WQE
//     cursor_psn_      next PSN to send; less than highest_ after going back
//     highest_         behind the last PSN ever sent
//     next_psn_        behind the last PSN given to a WQE
//
// Going back (go-back-N) is always to una_: the responder takes packets in order only, so nothing
// behind a lost one was taken.

#include "hca.hpp"

#include <cstdint>
#include <deque>

namespace rungs::verbs::soft {

class QpContext;

class Requester {
 public:
  Requester(QpContext& qp, Hca& hca) : qp_(qp), hca_(hca) {}
  void start(std::uint32_t first_psn);
  // The doorbell rang.
  void doorbell();
  // Sends what window, fence and wire allow. Whether anything moved.
  bool progress();
  // An acknowledgement or an answer from the peer.
  void receive(const Packet& packet);
  // Acts if the peer was silent for too long.
  void check_timer();
  [[nodiscard]] Clock::time_point next_timer() const noexcept;
  // The queue pair failed: completes everything left as flushed.
  void flush();

 private:
  // A WQE that has PSNs and is not completed.
  struct Inflight {
    std::uint16_t index = 0;
    std::uint8_t opcode = 0;
    std::uint8_t local_error = mlx5::kSyndromeNone;  // raised when all before it is done
    bool signalled = false;
    bool expects_data = false;  // read or atomic
    std::uint64_t length = 0;
    std::uint32_t first_psn = 0;
    std::uint32_t packets = 0;   // PSNs
    std::uint32_t received = 0;  // of a read: answers that came, in order
    [[nodiscard]] std::uint32_t end_psn() const { return psn_add(first_psn, packets); }
  };

  bool fetch();
  [[nodiscard]] std::uint8_t find_local_error(const SendWqe& wqe) const;
  bool send_one(Inflight& wqe);
  bool send_request_packet(Inflight& wqe, Packet packet, const SendWqe& request);
  bool settle_front();
  bool acknowledge_before(std::uint32_t psn);
  void receive_acknowledge(const Packet& packet);
  void receive_data(const Packet& packet);
  void receive_nak(const Packet& packet);
  void moved_to(std::uint32_t una);
  void go_back();
  void repair();
  void complete_front();
  void fail_front(std::uint8_t syndrome);
  void flush_queue();
  [[nodiscard]] bool anything_sent_unanswered() const { return psn_distance(highest_, una_) > 0; }

  QpContext& qp_;
  Hca& hca_;
  std::deque<Inflight> inflight_;
  std::size_t cursor_ = 0;  // the WQE of cursor_psn_; inflight_.size(): all sent
  std::uint32_t una_ = 0;
  std::uint32_t cursor_psn_ = 0;
  std::uint32_t highest_ = 0;
  std::uint32_t next_psn_ = 0;
  std::uint32_t reads_outstanding_ = 0;
  bool went_back_ = false;  // since una_ moved: late signs of the same loss are no new reason
  unsigned timeouts_ = 0;   // since una_ moved
  unsigned rnr_naks_ = 0;   // since una_ moved
  Clock::time_point timer_ = Clock::time_point::max();
  Clock::time_point rnr_until_ = Clock::time_point::min();
  SendWqe wqe_;  // scratch
};

}  // namespace rungs::verbs::soft
