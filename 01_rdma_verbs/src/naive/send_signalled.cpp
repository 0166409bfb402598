// The naive rung: one message under way at a time. The receive request is there before the send, or
// the receiver would answer "not ready" (RNR) and the sender wait.

#include "detail/transfer.hpp"

namespace rungs::verbs::detail {
namespace {

void run(const SendArgs& args) {
  for (std::uint32_t message = 0; message < args.messages; ++message) {
    const std::size_t offset = std::size_t{message} * args.message_bytes;
    const Segment to = args.destination->segment(offset, args.message_bytes);
    expect_posted(args.receiver->post_recv(RecvRequest{message, {&to, 1}}), 1, "verbs_send");
    const Segment from = args.source->segment(offset, args.message_bytes);
    SendRequest send;
    send.id = message;
    send.opcode = Opcode::kSend;
    send.segments = {&from, 1};
    expect_posted(args.sender->post_send(send), 1, "verbs_send");
    expect_success(args.recv_cq->wait_one(), "receive", args.messages);
    expect_success(args.send_cq->wait_one(), "send", args.messages);
  }
}

}  // namespace

std::unique_ptr<ladder::Prepared> prepare_send_signalled(const SendArgs& args,
                                                         const ladder::Machine&) {
  return std::make_unique<PreparedTransfer<SendArgs, &run>>(args);
}

}  // namespace rungs::verbs::detail
