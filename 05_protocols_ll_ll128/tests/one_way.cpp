#include "one_way.hpp"

#include <rungs/core/error.hpp>
#include <rungs/testing/poison.hpp>

#include <algorithm>

namespace rungs::protocols {

using collectives::DeviceCommunicator;
using collectives::kSlots;
using collectives::LinkSide;
using collectives::ProtocolId;

namespace {

constexpr auto kLl = static_cast<int>(ProtocolId::kLl);
constexpr std::size_t kSlotBytes = OneWay::kLines * sizeof(OneWay::Line);
constexpr std::size_t kMostMessages = 40;

}  // namespace

OneWay::Side::Side(const gpu::Device& device)
    : stream(device),
      links(device, 2),
      communicator(device, 1),
      claim(device, 1),
      control(device, 1, gpu::Space::kHostMapped) {}

OneWay::OneWay()
    : device_(gpu::Device::open(0)),
      slots_(device_, kSlots * kSlotBytes),
      words_(device_, 3),
      from_(device_, kMostMessages * kMost),
      to_(device_, kMostMessages * kMost),
      sender_(device_),
      receiver_(device_) {
  gpu::fill_async(slots_.data(), 0, slots_.size_bytes(), sender_.stream);
  LinkSide link{};
  link.buffer[kLl] = slots_.data();
  link.head = words_.data();
  for (Side* const side : {&sender_, &receiver_}) {
    link.step = words_.data() + (side == &sender_ ? 1 : 2);
    side->links.upload(std::vector<LinkSide>{link, link}, side->stream);
  }
  go_to(0);
}

void OneWay::go_to(std::uint64_t step) {
  step_ = step;
  words_.upload(std::vector<std::uint64_t>(3, step), sender_.stream);
}

void OneWay::set_lines(std::uint64_t step, const std::vector<Line>& lines) {
  RUNGS_REQUIRE(lines.size() == kLines, "set_lines: ", lines.size(), " lines");
  gpu::copy_async(slots_.data() + step % kSlots * kSlotBytes, lines.data(), kSlotBytes,
                  sender_.stream);
  sender_.stream.synchronize();
}

collectives::KernelArgs OneWay::prepare(Side& side, int rank, std::size_t count, double seconds) {
  *side.control.data() = {};
  DeviceCommunicator communicator{};
  communicator.rank = rank;
  communicator.size = 2;
  communicator.channels = 1;
  communicator.send = communicator.recv = side.links.data();
  communicator.slot_bytes[kLl] = kSlotBytes;
  communicator.abort = &side.control.data()->abort;
  side.claim.upload(std::vector<std::uint32_t>{0}, side.stream);
  communicator.claim = side.claim.data();
  communicator.fault = &side.control.data()->fault;
  communicator.timeout_ns = static_cast<std::uint64_t>(seconds * 1e9);
  side.communicator.upload(std::vector<DeviceCommunicator>{communicator}, side.stream);
  collectives::KernelArgs args{};
  args.communicator = side.communicator.data();
  args.send = from_.data();
  args.recv = to_.data();
  args.count = count;
  args.operation = 1;
  args.channels = 1;
  return args;
}

std::string OneWay::move(std::size_t count, unsigned messages) {
  RUNGS_REQUIRE(count <= kMost && messages <= kMostMessages, "move: ", messages, " messages of ",
                count);
  const std::size_t all = count * messages;
  std::vector<float> sent(all);
  for (float& value : sent) value = next_value_++;
  from_.upload(sent, sender_.stream);
  testing::poison(to_);
  const double seconds = 20 * timeout_scale();
  const collectives::KernelArgs send = prepare(sender_, 0, count, seconds);
  const collectives::KernelArgs receive = prepare(receiver_, 1, count, seconds);
  enqueue_receives(receive, messages, receiver_.stream);
  enqueue_sends(send, messages, sender_.stream);
  sender_.stream.synchronize();
  receiver_.stream.synchronize();
  const std::uint64_t first = step_;
  step_ += messages;
  for (const Side* const side : {&sender_, &receiver_}) {
    const gpu::Fault& fault = side->control.data()->fault;
    if (fault.set != 0)
      return concat("step ", fault.expected, " was waited for, ", fault.seen, " was seen");
  }
  const std::vector<float> received = to_.download(receiver_.stream);
  for (std::size_t i = 0; i < all; ++i) {
    if (received[i] != sent[i])
      return concat("step ", first + i / count, ", element ", i % count, ": ", received[i],
                    ", sent was ", sent[i]);
  }
  if (all < received.size() && !testing::is_poison(received[all])) return "too much was written";
  return {};
}

OneWay::Alone OneWay::receive_alone(std::size_t count) {
  testing::poison(to_);
  enqueue_receives(prepare(receiver_, 1, count, 0.01), 1, receiver_.stream);
  receiver_.stream.synchronize();
  const std::vector<float> received = to_.download(receiver_.stream);
  const gpu::Fault& fault = receiver_.control.data()->fault;
  Alone alone{};
  alone.gave_up = fault.set == 2 && fault.peer == 0;
  alone.awaited = collectives::awaited(fault);
  alone.expected = fault.expected;
  alone.taken = static_cast<std::size_t>(
      std::count_if(received.begin(), received.end(),
                    [](const float& value) { return !testing::is_poison(value); }));
  go_to(step_);
  return alone;
}

}  // namespace rungs::protocols
