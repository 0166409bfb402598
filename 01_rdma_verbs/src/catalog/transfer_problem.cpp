#include "catalog/transfer_problem.hpp"

#include <rungs/core/error.hpp>
#include <rungs/testing/random.hpp>

#include <algorithm>

namespace rungs::verbs {
namespace {

constexpr std::size_t kGuardBytes = 256;
constexpr std::uint8_t kGuard = 0xa5;

SoftOptions soft_options(Wire wire) {
  SoftOptions options;
  options.wire = wire;
  return options;
}

QueuePairOptions pair_options(const TransferShape& shape, CompletionQueue& send_cq,
                              CompletionQueue& recv_cq) {
  QueuePairOptions options;
  options.send_cq = &send_cq;
  options.recv_cq = &recv_cq;
  options.send_depth = options.recv_depth = shape.queue_depth;
  // These wires lose next to nothing: a time-out is a thread that was not given a core. Eight tries
  // of the usual length, 0.16 s, are no long time on a loaded machine.
  options.ack_timeout_seconds = 0.25;
  return options;
}

std::vector<std::uint8_t> random_bytes(std::size_t count, std::uint64_t seed) {
  testing::Random random(seed);
  std::vector<std::uint8_t> bytes(count);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.next());
  return bytes;
}

}  // namespace

std::string to_string(const TransferShape& shape) {
  const bool kib = shape.message_bytes % 1024 == 0;
  return concat(shape.messages, " x ", kib ? shape.message_bytes / 1024 : shape.message_bytes,
                kib ? " KiB, " : " B, ", shape.wire == Wire::kUdp ? "UDP" : "shared memory");
}

TransferEnd::TransferEnd(const TransferShape& shape, std::size_t size_bytes)
    : device(Device::open_soft(soft_options(shape.wire))),
      pd(device.alloc_pd()),
      send_cq(device.create_cq(shape.queue_depth)),
      recv_cq(device.create_cq(shape.queue_depth)),
      queue_pair(pd.create_rc(pair_options(shape, send_cq, recv_cq))),
      memory(size_bytes),
      region(pd.register_memory(memory.data(), memory.size(), Access::kAll)) {}

Transfer::Transfer(const TransferShape& shape, std::uint64_t seed)
    : shape_(shape),
      expected_(random_bytes(payload_bytes(), seed)),
      from_(shape, payload_bytes()),
      to_(shape, payload_bytes() + 2 * kGuardBytes),
      landing_(to_.pd.register_memory(to_.memory.data() + kGuardBytes, payload_bytes(),
                                      Access::kLocalWrite | Access::kRemoteWrite)) {
  std::copy(expected_.begin(), expected_.end(), from_.memory.begin());
  from_.queue_pair.connect(to_.queue_pair.address());
  to_.queue_pair.connect(from_.queue_pair.address());
  poison();
}

std::size_t Transfer::payload_bytes() const {
  return std::size_t{shape_.messages} * shape_.message_bytes;
}

void Transfer::poison() {
  std::fill(to_.memory.begin(), to_.memory.end(), kGuard);
  for (std::size_t i = 0; i < expected_.size(); ++i) {
    to_.memory[kGuardBytes + i] = static_cast<std::uint8_t>(~expected_[i]);
  }
}

std::vector<float> Transfer::output() const {
  std::vector<float> bytes(to_.memory.begin(), to_.memory.end());
  bytes.insert(bytes.end(), from_.memory.begin(), from_.memory.end());
  return bytes;
}

ladder::Reference Transfer::reference() const {
  ladder::Reference reference;
  reference.values.assign(kGuardBytes, kGuard);
  reference.values.insert(reference.values.end(), expected_.begin(), expected_.end());
  reference.values.insert(reference.values.end(), kGuardBytes, kGuard);
  reference.values.insert(reference.values.end(), expected_.begin(), expected_.end());
  return reference;
}

std::string Transfer::describe(std::size_t element) const {
  const std::size_t payload = payload_bytes();
  const auto in_message = [&](std::size_t byte) {
    return concat("byte ", byte % shape_.message_bytes, " of message ",
                  byte / shape_.message_bytes);
  };
  if (element < kGuardBytes)
    return concat("byte ", element, " of the guard before the destination");
  element -= kGuardBytes;
  if (element < payload) return in_message(element);
  element -= payload;
  if (element < kGuardBytes)
    return concat("byte ", element, " of the guard behind the destination");
  return concat("the source: ", in_message(element - kGuardBytes));
}

WriteArgs Transfer::write_args() {
  WriteArgs args;
  args.queue_pair = &from_.queue_pair;
  args.send_cq = &from_.send_cq;
  args.send_depth = shape_.queue_depth;
  args.source = &from_.region;
  args.remote_address = landing_.remote_address();
  args.rkey = landing_.rkey();
  args.messages = shape_.messages;
  args.message_bytes = shape_.message_bytes;
  return args;
}

SendArgs Transfer::send_args() {
  SendArgs args;
  args.sender = &from_.queue_pair;
  args.send_cq = &from_.send_cq;
  args.receiver = &to_.queue_pair;
  args.recv_cq = &to_.recv_cq;
  args.send_depth = args.recv_depth = shape_.queue_depth;
  args.source = &from_.region;
  args.destination = &landing_;
  args.messages = shape_.messages;
  args.message_bytes = shape_.message_bytes;
  return args;
}

WireCounters Transfer::counters() const {
  WireCounters sum = from_.device.counters();
  const WireCounters other = to_.device.counters();
  sum.packets_sent += other.packets_sent;
  sum.packets_received += other.packets_received;
  sum.packets_dropped += other.packets_dropped;
  sum.packets_rejected += other.packets_rejected;
  sum.retransmissions += other.retransmissions;
  sum.naks_sent += other.naks_sent;
  sum.doorbells += other.doorbells;
  sum.wqes += other.wqes;
  sum.cqes += other.cqes;
  return sum;
}

}  // namespace rungs::verbs
