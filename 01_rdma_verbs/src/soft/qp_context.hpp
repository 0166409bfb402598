#pragma once
// A queue pair as the device knows it.

#include "requester.hpp"
#include "responder.hpp"

#include <atomic>
#include <cstdint>

namespace rungs::verbs::soft {

enum class QpState : std::uint8_t { kReset, kReady, kError };

struct QpSettings {
  std::uint32_t number = 0;
  std::uint32_t pd = 0;
  unsigned retry_count = 7;
  unsigned rnr_retry_count = 7;  // kRnrForever: no limit
  Clock::duration ack_timeout{};
  std::uint8_t rnr_timer_code = 0;
};
inline constexpr unsigned kRnrForever = 7;

class QpContext {
 public:
  QpContext(Hca& hca, const QpSettings& settings_, const SendQueue& send, const RecvQueue& recv,
            CqWriter& send_cq, CqWriter& recv_cq)
      : settings(settings_),
        send_queue(send),
        recv_queue(recv),
        requester(*this, hca),
        responder(*this, hca),
        send_cq_(send_cq),
        recv_cq_(recv_cq) {}

  const QpSettings settings;
  Connection connection;
  SendQueue send_queue;
  RecvQueue recv_queue;
  Requester requester;
  Responder responder;

  // Any thread may read it.
  [[nodiscard]] QpState state() const noexcept { return state_.load(std::memory_order_acquire); }

  void connect(const Connection& to, std::uint32_t own_psn, std::uint32_t remote_psn) {
    connection = to;
    requester.start(own_psn);
    responder.start(remote_psn);
    state_.store(QpState::kReady, std::memory_order_release);
  }

  // Completions; an overflow of the queue fails the pair.
  void complete_send(CqeContent content) { complete(send_cq_, content); }
  void complete_receive(CqeContent content) { complete(recv_cq_, content); }

  // To the error state: everything posted completes as flushed.
  void fail() {
    if (enter_error()) flush();
  }
  // The same in two steps, to complete the request that caused it between them: whoever sees that
  // completion finds the pair failed. False: it had failed before.
  bool enter_error() {
    return state_.exchange(QpState::kError, std::memory_order_acq_rel) != QpState::kError;
  }
  void flush() {
    requester.flush();
    responder.flush();
  }

 private:
  void complete(CqWriter& cq, CqeContent& content) {
    content.qp_number = settings.number;
    if (!cq.write(content)) fail();
  }

  CqWriter& send_cq_;
  CqWriter& recv_cq_;
  std::atomic<QpState> state_{QpState::kReset};
};

}  // namespace rungs::verbs::soft
