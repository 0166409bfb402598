// Naive rung: one slot, and the caller does everything.
//
// New: nothing yet. A piece is put into the slot, the receiver takes it out, the credit comes back,
// and only then does the next piece start.
//
//     sender     [copy in][ ... waits ... ]            [copy in][ ... waits ... ]
//     wire                [wire]                                [wire]
//     receiver                  [copy out][credit]                    [copy out][credit]
//
// Cost: k pieces x (copy in + wire + copy out + credit's way back), nothing overlaps.

#include "detail/context_state.hpp"
#include "detail/link_impl.hpp"

#include <rungs/core/deadline.hpp>
#include <rungs/core/error.hpp>

#include <chrono>
#include <optional>
#include <utility>

namespace rungs::transport::detail {
namespace {

class BlockingLink final : public LinkImpl {
 public:
  using LinkImpl::LinkImpl;
  ~BlockingLink() override {
    parts_.ends.outlet->close();
    parts_.ends.inlet->close();
  }
  void send(const Transfer& transfer) override {
    guarded(transfer, *parts_.ends.outlet, send_broken_, &BlockingLink::send_pieces);
  }
  void receive(const Transfer& transfer) override {
    guarded(transfer, *parts_.ends.inlet, receive_broken_, &BlockingLink::receive_pieces);
  }

 private:
  void send_pieces(const Transfer& transfer);
  void receive_pieces(const Transfer& transfer);

  // What goes wrong comes out of Request::wait(), as with the pipelined schedule. A direction that
  // failed with a piece on its way stays broken.
  template <class End>
  void guarded(const Transfer& transfer, End& end, std::optional<Error>& broken,
               void (BlockingLink::*work)(const Transfer&)) {
    if (broken) return transfer.request->fail(*broken);
    try {
      (this->*work)(transfer);
    } catch (const Error& error) {
      end.stop();
      broken = error;
      transfer.request->fail(error);
    }
  }

  template <class Ready>
  void until(const Deadline& deadline, const Ready& ready) {
    Backoff backoff;
    while (!ready()) {
      parts_.context->throw_if_lost(parts_.peer);
      if (deadline.passed()) {
        RUNGS_THROW(kTimeout, "rank ", parts_.peer, " did not answer: waited ",
                    deadline.waited().count(), " s");
      }
      backoff.pause();
    }
  }
  [[nodiscard]] Deadline deadline() const {
    return Deadline::after(std::chrono::duration<double>(parts_.timeout_seconds));
  }

  std::optional<Error> send_broken_;
  std::optional<Error> receive_broken_;
};

void BlockingLink::send_pieces(const Transfer& transfer) {
  Outlet& outlet = *parts_.ends.outlet;
  RequestState& request = *transfer.request;
  const Deadline end = deadline();
  std::size_t offset = 0;
  do {
    // 1. Fill the slot.
    const Piece piece = piece_at(transfer, offset, parts_.slot_bytes);
    until(end, [&] { return outlet.put(piece, source_at(transfer, offset)); });
    // 2. Wait until the receiver has drained it.
    Settlement fate;
    until(end, [&] { return outlet.settled(fate); });
    if (fate.refused) return fail_too_small(request, request.size_bytes, fate.capacity_bytes);
    offset += piece.size_bytes;
    request.passed_bytes = offset;
  } while (offset < request.size_bytes);
  request.finish();
}

void BlockingLink::receive_pieces(const Transfer& transfer) {
  Inlet& inlet = *parts_.ends.inlet;
  RequestState& request = *transfer.request;
  const Deadline end = deadline();
  std::size_t total = request.size_bytes;  // until the first piece says how long the message is
  std::size_t offset = 0;
  do {
    // 1. Say where the next piece may go.
    const Window window = window_at(transfer, offset, total, parts_.slot_bytes);
    until(end, [&] { return inlet.offer(window); });
    // 2. Wait until it is there; the carrier gives the credit back.
    Piece piece;
    bool refused = false;
    until(end, [&] { return inlet.filled(piece, refused); });
    if (refused) return fail_too_small(request, piece.total_bytes, request.size_bytes);
    total = piece.total_bytes;
    offset += piece.size_bytes;
    request.total_bytes = total;
    request.passed_bytes = offset;
  } while (offset < total);
  request.finish();
}

}  // namespace

std::unique_ptr<LinkImpl> make_blocking_link(LinkParts parts) {
  return std::make_unique<BlockingLink>(std::move(parts));
}

}  // namespace rungs::transport::detail
