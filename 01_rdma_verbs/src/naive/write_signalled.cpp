// The naive rung: one write under way at a time.
//
//   CPU   post, ring │ . . . wait . . . │ poll, post, ring │ . . .
//   HCA              │ fetch, send, ACK, CQE │             │ fetch ...
//
// Easy to reason about: when a write is posted, everything before it has arrived. Every message
// pays a doorbell, a completion and the whole round trip: messages · (t_round_trip + n /
// bandwidth).

#include "detail/transfer.hpp"

namespace rungs::verbs::detail {
namespace {

void run(const WriteArgs& args) {
  for (std::uint32_t message = 0; message < args.messages; ++message) {
    const std::size_t offset = std::size_t{message} * args.message_bytes;
    const Segment segment = args.source->segment(offset, args.message_bytes);
    SendRequest write;
    write.id = message;
    write.opcode = Opcode::kRdmaWrite;
    write.segments = {&segment, 1};
    write.remote_address = args.remote_address + offset;
    write.rkey = args.rkey;
    expect_posted(args.queue_pair->post_send(write), 1, "verbs_write");
    expect_success(args.send_cq->wait_one(), "write", args.messages);
  }
}

}  // namespace

std::unique_ptr<ladder::Prepared> prepare_write_signalled(const WriteArgs& args,
                                                          const ladder::Machine&) {
  return std::make_unique<PreparedTransfer<WriteArgs, &run>>(args);
}

}  // namespace rungs::verbs::detail
