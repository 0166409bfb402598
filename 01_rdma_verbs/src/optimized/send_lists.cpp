// Lists of sends, and selective signalling on top: as for writes (write_lists.cpp), with a second
// window. A send needs a receive request at the peer and a slot of the own send queue. They come
// back at different events, so two counters are kept:
//
//   window            taken by     given back by
//   receive requests  each send    the receiver posting more (here the same thread; between hosts a
//                                  message from it)
//   send slots        each send    polling a send completion that covers it
//
// One counter for both is wrong: the receiver may have taken a message and posted anew before its
// completion here has been polled, and the send queue overflows (apache/brpc#3132).

#include "detail/transfer.hpp"

#include <rungs/core/deadline.hpp>

#include <algorithm>
#include <array>

namespace rungs::verbs::detail {
namespace {

enum class Signal { kEach, kLastOfList };

template <Signal Signalling>
class Run {
 public:
  explicit Run(const SendArgs& args) : args_(args) {}

  void all() {
    const Deadline deadline = Deadline::standard();
    Backoff backoff;
    while (received_ < args_.messages || sent_ < args_.messages) {
      bool progress = offer();
      progress = send() || progress;
      progress = take_received() || progress;
      progress = take_sent() || progress;
      if (progress) {
        backoff.reset();
        continue;
      }
      if (deadline.passed()) {
        RUNGS_THROW(kTimeout, "verbs_send: ", received_, " of ", args_.messages, " received, ",
                    sent_, " sent, ", posted_, " posted, no completion, waited ",
                    deadline.waited().count(), " s");
      }
      backoff.pause();
    }
  }

 private:
  // Receive requests for the next list, once the receive queue has room for all of it.
  bool offer() {
    const std::uint32_t count = std::min(kListLength, args_.messages - offered_);
    if (count == 0 || args_.recv_depth - (offered_ - received_) < count) return false;
    for (std::uint32_t i = 0; i < count; ++i) {
      segments_[i] = at(*args_.destination, offered_ + i);
      receives_[i] = {offered_ + i, {&segments_[i], 1}};
    }
    expect_posted(args_.receiver->post_recv({receives_.data(), count}), count, "verbs_send");
    offered_ += count;
    return true;
  }

  // The next list of sends, once both windows have room for all of it.
  bool send() {
    const std::uint32_t count = std::min(kListLength, args_.messages - posted_);
    if (count == 0 || offered_ - posted_ < count || args_.sender->send_slots_free() < count) {
      return false;
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      segments_[i] = at(*args_.source, posted_ + i);
      sends_[i].id = posted_ + i;
      sends_[i].opcode = Opcode::kSend;
      sends_[i].segments = {&segments_[i], 1};
      sends_[i].signalled = Signalling == Signal::kEach || i + 1 == count;
    }
    expect_posted(args_.sender->post_send({sends_.data(), count}), count, "verbs_send");
    posted_ += count;
    return true;
  }

  bool take_received() {
    const std::size_t taken = args_.recv_cq->poll(completions_);
    for (std::size_t i = 0; i < taken; ++i) {
      expect_success(completions_[i], "receive", args_.messages);
      ++received_;
    }
    return taken > 0;
  }

  // A send completion covers every message up to its own.
  bool take_sent() {
    const std::size_t taken = args_.send_cq->poll(completions_);
    for (std::size_t i = 0; i < taken; ++i) {
      expect_success(completions_[i], "send", args_.messages);
      sent_ = static_cast<std::uint32_t>(completions_[i].id) + 1;
    }
    return taken > 0;
  }

  [[nodiscard]] Segment at(const MemoryRegion& region, std::uint32_t message) const {
    return region.segment(std::size_t{message} * args_.message_bytes, args_.message_bytes);
  }

  const SendArgs& args_;
  std::array<Segment, kListLength> segments_;
  std::array<SendRequest, kListLength> sends_;
  std::array<RecvRequest, kListLength> receives_;
  std::array<Completion, kListLength> completions_;
  std::uint32_t offered_ = 0;   // receive requests posted
  std::uint32_t received_ = 0;  // and completed
  std::uint32_t posted_ = 0;    // sends posted
  std::uint32_t sent_ = 0;      // and covered by a completion
};

template <Signal Signalling>
void run(const SendArgs& args) {
  Run<Signalling>(args).all();
}

}  // namespace

std::unique_ptr<ladder::Prepared> prepare_send_lists(const SendArgs& args, const ladder::Machine&) {
  return std::make_unique<PreparedTransfer<SendArgs, &run<Signal::kEach>>>(args);
}

std::unique_ptr<ladder::Prepared> prepare_send_selective(const SendArgs& args,
                                                         const ladder::Machine&) {
  return std::make_unique<PreparedTransfer<SendArgs, &run<Signal::kLastOfList>>>(args);
}

}  // namespace rungs::verbs::detail
