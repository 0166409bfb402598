// Two rungs that differ in one bit of each work request.
//
// posted_list: 32 requests are written into the send queue, then the doorbell is rung once; the
// next list is posted as soon as the queue has room for it, so the queue never runs dry.
//
//   CPU   post 32, ring │ post 32, ring │ post 32, ring │ post 32, ring │ poll ... post 32, ring
//   HCA                 │ 0 1 2 3 4 5 ...                               │ CQE CQE CQE CQE ...
//
// selective_signalling: only the last request of a list asks for a completion. Requests of a queue
// pair finish in order, so that one says that all 32 have. What is new is the accounting: a slot of
// the send queue becomes free when a completion that covers it is *polled*, not when its write is
// done. A completion therefore frees 32 slots, and the last request of a run must be signalled, or
// its end is never seen.
//
//   per message                signalled    posted_list    selective_signalling
//   doorbells                  1            1/32           1/32
//   completions                1            1              1/32
//   writes under way           1            send_depth     send_depth

#include "detail/transfer.hpp"

#include <rungs/core/deadline.hpp>

#include <algorithm>
#include <array>

namespace rungs::verbs::detail {
namespace {

enum class Signal { kEach, kLastOfList };

template <Signal Signalling>
void run(const WriteArgs& args) {
  const Deadline deadline = Deadline::standard();
  std::array<Segment, kListLength> segments;
  std::array<SendRequest, kListLength> list;
  std::array<Completion, kListLength> completions;
  Backoff backoff;
  std::uint32_t posted = 0;
  std::uint32_t done = 0;
  while (done < args.messages) {
    // 1. A list, if the queue has room for all of it.
    const std::uint32_t count = std::min(kListLength, args.messages - posted);
    if (count > 0 && args.queue_pair->send_slots_free() >= count) {
      for (std::uint32_t i = 0; i < count; ++i) {
        const std::size_t offset = std::size_t{posted + i} * args.message_bytes;
        segments[i] = args.source->segment(offset, args.message_bytes);
        SendRequest& write = list[i];
        write.id = posted + i;
        write.opcode = Opcode::kRdmaWrite;
        write.segments = {&segments[i], 1};
        write.remote_address = args.remote_address + offset;
        write.rkey = args.rkey;
        write.signalled = Signalling == Signal::kEach || i + 1 == count;
      }
      expect_posted(args.queue_pair->post_send({list.data(), count}), count, "verbs_write");
      posted += count;
      backoff.reset();
    }
    // 2. What is finished. An id is a message's number: it covers every message up to it.
    const std::size_t taken = args.send_cq->poll(completions);
    for (std::size_t i = 0; i < taken; ++i) {
      expect_success(completions[i], "write", args.messages);
      done = static_cast<std::uint32_t>(completions[i].id) + 1;
    }
    // 3. Neither room nor completions: wait.
    if (taken > 0) {
      backoff.reset();
    } else if (posted == args.messages || args.queue_pair->send_slots_free() < kListLength) {
      if (deadline.passed()) {
        RUNGS_THROW(kTimeout, "verbs_write: ", done, " of ", args.messages, " writes done, ",
                    posted, " posted, no completion, waited ", deadline.waited().count(), " s");
      }
      backoff.pause();
    }
  }
}

}  // namespace

std::unique_ptr<ladder::Prepared> prepare_write_lists(const WriteArgs& args,
                                                      const ladder::Machine&) {
  return std::make_unique<PreparedTransfer<WriteArgs, &run<Signal::kEach>>>(args);
}

std::unique_ptr<ladder::Prepared> prepare_write_selective(const WriteArgs& args,
                                                          const ladder::Machine&) {
  return std::make_unique<PreparedTransfer<WriteArgs, &run<Signal::kLastOfList>>>(args);
}

}  // namespace rungs::verbs::detail
