// Second rung: a FIFO of 8 slots with credits, moved by a progress thread.
//
// New against the naive one: the sender fills slot i + 1 while slot i is on the wire and slot i - 1
// is drained; several messages are under way at once; the caller gets a Request back at once.
//
//     sender     [in 0][in 1][in 2][in 3] ...
//     wire             [w 0 ][w 1 ][w 2 ][w 3 ] ...
//     receiver               [out 0][out 1][out 2][out 3] ...
//
// Cost: (k pieces + stages - 1) x the slowest stage.
//
// Who touches what: send() and receive() append to `submitted` under a mutex; everything else is
// the progress thread's.

#include "detail/context_state.hpp"
#include "detail/link_impl.hpp"
#include "detail/progress.hpp"

#include <rungs/core/error.hpp>

#include <deque>
#include <mutex>
#include <optional>
#include <utility>

namespace rungs::transport::detail {
namespace {

// The messages of one direction: those the caller has just handed over, those under way, and, once
// the pipe broke, why.
class MessageQueue {
 public:
  void submit(const Transfer& transfer) {
    const std::lock_guard lock(mutex_);
    submitted_.push_back(transfer);
  }
  bool fetch() {
    const std::lock_guard lock(mutex_);
    const bool any = !submitted_.empty();
    for (Transfer& transfer : submitted_) queue.emplace_back(std::move(transfer));
    submitted_.clear();
    return any;
  }
  void fail(const Error& error) {
    if (!broken) broken = error;
    for (const Message& message : queue) message.transfer.request->fail(*broken);
    queue.clear();
  }

  struct Message {
    explicit Message(Transfer given) : transfer(std::move(given)) {}
    Transfer transfer;
    std::size_t begun_bytes = 0;             // put, or offered
    bool begun = false;                      // all pieces are put; all windows are offered
    std::optional<std::size_t> total_bytes;  // receiver: once the first piece said so
  };
  std::deque<Message> queue;  // oldest first; settled ones leave at the front
  std::optional<Error> broken;

 private:
  std::mutex mutex_;
  std::deque<Transfer> submitted_;
};

class SendSide {
 public:
  SendSide(Outlet& outlet, std::size_t slot_bytes) : outlet_(outlet), slot_bytes_(slot_bytes) {}
  MessageQueue messages;

  bool advance() {
    bool moved = messages.fetch();
    if (messages.broken) {
      messages.fail(*messages.broken);
      return moved;
    }
    while (put_next()) moved = true;
    while (settle_next()) moved = true;
    return moved;
  }
  void fail(const Error& error) {
    if (!messages.broken) outlet_.stop();  // the memory is the caller's again
    messages.fail(error);
  }

 private:
  // 1. The next piece of the oldest message that has any left.
  bool put_next() {
    for (auto& message : messages.queue) {
      if (message.begun) continue;
      const Transfer& transfer = message.transfer;
      const Piece piece = piece_at(transfer, message.begun_bytes, slot_bytes_);
      if (!outlet_.put(piece, source_at(transfer, message.begun_bytes))) return false;
      under_way_.push_back(piece);
      message.begun_bytes += piece.size_bytes;
      message.begun = piece.last();
      return true;
    }
    return false;
  }

  // 2. Credits, in the order of the pieces.
  bool settle_next() {
    Settlement fate;
    if (under_way_.empty() || !outlet_.settled(fate)) return false;
    const Piece piece = under_way_.front();
    under_way_.pop_front();
    // Pieces of a refused message that were on their way behind the refused one.
    if (messages.queue.empty() || messages.queue.front().transfer.request->message > piece.message)
      return true;
    RequestState& request = *messages.queue.front().transfer.request;
    request.passed_bytes += piece.size_bytes * (fate.refused ? 0 : 1);
    if (fate.refused) {
      outlet_.cancel(piece.message);
      fail_too_small(request, piece.total_bytes, fate.capacity_bytes);
    } else if (piece.last()) {
      request.finish();
    }
    if (fate.refused || piece.last()) messages.queue.pop_front();
    return true;
  }

  Outlet& outlet_;
  std::size_t slot_bytes_;
  std::deque<Piece> under_way_;
};

class ReceiveSide {
 public:
  ReceiveSide(Inlet& inlet, std::size_t slot_bytes) : inlet_(inlet), slot_bytes_(slot_bytes) {}
  MessageQueue messages;

  bool advance() {
    bool moved = messages.fetch();
    if (messages.broken) {
      messages.fail(*messages.broken);
      return moved;
    }
    while (offer_next()) moved = true;
    while (take_next()) {
      moved = true;
      while (offer_next()) continue;
    }
    return moved;
  }
  void fail(const Error& error) {
    if (!messages.broken) inlet_.stop();
    messages.fail(error);
  }

 private:
  // 1. Windows, in the order in which pieces will come. How many a message needs is known when its
  //    first piece is there; until then only receives of one slot at most are looked past.
  bool offer_next() {
    if (offered_ == kSlots) return false;
    for (auto& message : messages.queue) {
      if (message.begun) continue;
      const Transfer& transfer = message.transfer;
      if (message.begun_bytes > 0 && !message.total_bytes) return false;
      const std::size_t total = message.total_bytes.value_or(transfer.size_bytes());
      const Window window = window_at(transfer, message.begun_bytes, total, slot_bytes_);
      if (!inlet_.offer(window)) return false;
      ++offered_;
      message.begun_bytes += window.size_bytes;
      message.begun = message.begun_bytes == total;
      return true;
    }
    return false;
  }

  // 2. Pieces that arrived.
  bool take_next() {
    Piece piece;
    bool refused = false;
    if (offered_ == 0 || !inlet_.filled(piece, refused)) return false;
    --offered_;
    auto& message = messages.queue.front();
    RequestState& request = *message.transfer.request;
    if (refused) {
      fail_too_small(request, piece.total_bytes, request.size_bytes);
      messages.queue.pop_front();
      return true;
    }
    if (!message.total_bytes) {
      message.total_bytes = piece.total_bytes;
      message.begun = piece.last() || message.begun_bytes == piece.total_bytes;
      request.total_bytes = piece.total_bytes;
    }
    request.passed_bytes += piece.size_bytes;
    if (!piece.last()) return true;
    request.finish();
    messages.queue.pop_front();
    return true;
  }

  Inlet& inlet_;
  std::size_t slot_bytes_;
  int offered_ = 0;
};

class PipelinedLink final : public LinkImpl, public Driven {
 public:
  explicit PipelinedLink(LinkParts parts)
      : LinkImpl(std::move(parts)),
        sending_(*parts_.ends.outlet, parts_.slot_bytes),
        receiving_(*parts_.ends.inlet, parts_.slot_bytes),
        progress_(parts_.context->progress()) {
    progress_.add(*this);
  }
  ~PipelinedLink() override {
    progress_.remove(*this);
    parts_.ends.outlet->close();
    parts_.ends.inlet->close();
    break_off(
        Error(ErrorCode::kInvalidArgument, "this rank destroyed the link", __FILE__, __LINE__));
  }

  void send(const Transfer& transfer) override {
    sending_.messages.submit(transfer);
    progress_.wake();
  }
  void receive(const Transfer& transfer) override {
    receiving_.messages.submit(transfer);
    progress_.wake();
  }

  bool advance() noexcept override {
    const bool sent = guarded(sending_);
    return guarded(receiving_) || sent;
  }
  bool busy() noexcept override {
    return !sending_.messages.queue.empty() || !receiving_.messages.queue.empty();
  }
  void lost(const bootstrap::Lost& lost) noexcept override {
    if (busy() && concerns(lost, parts_.peer)) break_off(lost_error(lost));
  }

 private:
  // A pipe that broke stays broken: what is pending fails, and so does what follows.
  template <class Side>
  bool guarded(Side& side) noexcept {
    try {
      return side.advance();
    } catch (const Error& error) {
      side.fail(error);
    } catch (const std::exception& error) {
      side.fail(Error(ErrorCode::kInternal, error.what(), __FILE__, __LINE__));
    }
    return true;
  }
  void break_off(const Error& error) noexcept {
    sending_.messages.fetch();
    receiving_.messages.fetch();
    sending_.fail(error);
    receiving_.fail(error);
  }

  SendSide sending_;
  ReceiveSide receiving_;
  ProgressThread& progress_;
};

}  // namespace

std::unique_ptr<LinkImpl> make_pipelined_link(LinkParts parts) {
  return std::make_unique<PipelinedLink>(std::move(parts));
}

}  // namespace rungs::transport::detail
