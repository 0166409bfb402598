#include "carriers/verbs_pipe.hpp"

#include <rungs/core/deadline.hpp>
#include <rungs/core/error.hpp>

#include <array>
#include <chrono>
#include <cstring>
#include <span>
#include <utility>

namespace rungs::transport::detail {
namespace {

constexpr std::uint32_t kReceives = 2 * kSlots;  // kSlots windows, the close, and room to spare
constexpr std::uint32_t kSends = 4 * kSlots;     // bytes and entry of kSlots pieces, the close
constexpr auto kPatience = std::chrono::milliseconds(250);  // of a close or a stop

verbs::QueuePair make_pair(Hca& hca, verbs::CompletionQueue& send, verbs::CompletionQueue& recv) {
  verbs::QueuePairOptions options;
  options.send_cq = &send;
  options.recv_cq = &recv;
  options.send_depth = kSends;
  options.recv_depth = kReceives;
  options.max_segments = 1;
  options.max_inline_bytes = sizeof(ClearToSend);
  // A dead peer is the group's news. The retry timer is for lost packets, and must outlast an
  // engine that waits for a core.
  options.ack_timeout_seconds = hca.device().info().wire == "shared memory" ? 1.0 : 0.25;
  return hca.domain().create_rc(options);
}

}  // namespace

VerbsPipe::VerbsPipe(std::shared_ptr<Hca> hca, std::size_t entry_bytes, unsigned slots,
                     std::size_t stage_bytes)
    : hca_(std::move(hca)),
      entry_bytes_(entry_bytes),
      slots_(slots),
      stage_bytes_(stage_bytes),
      entries_(*hca_, kEntries * entry_bytes,
               verbs::Access::kLocalWrite | verbs::Access::kRemoteWrite),
      stage_(*hca_, slots * stage_bytes, verbs::Access::kLocalWrite | verbs::Access::kRemoteWrite),
      send_cq_(hca_->device().create_cq(2 * kSends)),
      recv_cq_(hca_->device().create_cq(2 * kReceives)),
      pair_(make_pair(*hca_, send_cq_, recv_cq_)) {
  for (std::uint32_t i = 0; i < kReceives; ++i) post(pair_, verbs::RecvRequest{i, {}});
}

VerbsPipe::~VerbsPipe() { stop(); }

VerbsNote VerbsPipe::note() const {
  return {pair_.address(), entries_.address(0), entries_.region().rkey(), 0};
}

void VerbsPipe::connect(const VerbsNote& peer) {
  peer_ = peer;
  pair_.connect(peer.address);
}

void VerbsPipe::take(const verbs::Completion& completion) {
  if (completion.status != verbs::Status::kSuccess) {
    // The first failure is the cause; what follows was flushed by it.
    if (!broken_ || completion.status != verbs::Status::kFlushed)
      broken_ = completion_error(completion);
    return;
  }
  if (!completion.receive) {
    --unacknowledged_;
    if (completion.id != kClosed) ++acknowledged_;
    return;
  }
  if (completion.immediate == kClosed) {
    peer_closed_ = true;
  } else {
    ++arrivals_;
  }
  post(pair_, verbs::RecvRequest{completion.id, {}});
}

void VerbsPipe::poll_sends() {
  std::array<verbs::Completion, kSends> completions;
  const std::size_t count = send_cq_.poll(completions);
  for (std::size_t i = 0; i < count; ++i) take(completions[i]);
}

void VerbsPipe::poll_all() {
  std::array<verbs::Completion, kReceives> completions;
  const std::size_t count = recv_cq_.poll(completions);
  for (std::size_t i = 0; i < count; ++i) take(completions[i]);
  poll_sends();  // also: why receives were flushed
}

std::size_t VerbsPipe::arrivals() {
  poll_all();
  if (arrivals_ == 0 && broken_) throw *broken_;
  return std::exchange(arrivals_, 0);
}

std::size_t VerbsPipe::acknowledged() {
  poll_sends();
  if (acknowledged_ == 0 && broken_) throw *broken_;
  return std::exchange(acknowledged_, 0);
}

void VerbsPipe::write(const verbs::Segment* data, std::uint64_t to, std::uint32_t rkey,
                      std::uint64_t index, const void* entry, std::size_t entry_bytes) {
  std::array<verbs::SendRequest, 2> requests;
  std::size_t count = 0;
  if (data != nullptr) {
    verbs::SendRequest& bytes = requests[count++];
    bytes.opcode = verbs::Opcode::kRdmaWrite;
    bytes.segments = std::span(data, 1);
    bytes.remote_address = to;
    bytes.rkey = rkey;
    bytes.signalled = false;
  }
  const verbs::Segment source{const_cast<void*>(entry), static_cast<std::uint32_t>(entry_bytes), 0};
  verbs::SendRequest& last = requests[count++];
  last.id = index & 0x7fffffffu;
  last.opcode = verbs::Opcode::kRdmaWriteWithImm;
  last.segments = std::span(&source, 1);
  last.remote_address = peer_.entries_address + index % kEntries * entry_bytes;
  last.rkey = peer_.entries_rkey;
  last.immediate = static_cast<std::uint32_t>(last.id);
  last.inline_data = true;
  post(pair_, std::span(requests).first(count));
  ++unacknowledged_;
}

// The HCA must not touch the caller's memory any more: the pair goes to the error state, and a
// flushed receive request tells that it is there.
void VerbsPipe::stop() noexcept {
  if (std::exchange(stopped_, true)) return;
  pair_.fail();
  try {
    const Deadline end = Deadline::after(kPatience);
    Backoff backoff;
    bool flushed = false;
    while (!flushed && !end.passed()) {
      std::array<verbs::Completion, kReceives> completions;
      const std::size_t count = recv_cq_.poll(completions);
      for (std::size_t i = 0; i < count; ++i) {
        flushed = flushed || completions[i].status == verbs::Status::kFlushed;
      }
      if (count == 0) backoff.pause();
    }
  } catch (const Error&) {  // RUNGS_TIMEOUT_SCALE is no number: others have said so before
  }
}

// A write without bytes whose immediate says so. The peer's acknowledgement is worth a short wait:
// it tells that everything before it has arrived. A peer that closed first does not answer any
// more.
void VerbsPipe::close() noexcept {
  if (stopped_ || broken_) return;
  try {
    poll_all();
    if (peer_closed_ || broken_) return;
    verbs::SendRequest closing;
    closing.id = kClosed;
    closing.opcode = verbs::Opcode::kRdmaWriteWithImm;
    closing.immediate = kClosed;
    closing.remote_address = peer_.entries_address;
    closing.rkey = peer_.entries_rkey;
    post(pair_, std::span(&closing, 1));
    ++unacknowledged_;
    const Deadline end = Deadline::after(kPatience);
    Backoff backoff;
    while (unacknowledged_ > 0 && !peer_closed_ && !broken_ && !end.passed()) {
      poll_all();
      backoff.pause();
    }
  } catch (const Error&) {  // the peer is gone already
  }
}

}  // namespace rungs::transport::detail
