// Thousands of random messages in both directions over wires that lose, repeat and reorder packets:
// everything arrives once, in order and byte for byte. What should be is a plain model in this
// file.

#include "fixture.hpp"

#include <gtest/gtest.h>
#include <rungs/core/deadline.hpp>
#include <rungs/testing/random.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

namespace rungs::verbs {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr std::uint32_t kSlower = 10;  // ThreadSanitizer: fewer messages in about the same time
#else
constexpr std::uint32_t kSlower = 1;
#endif

constexpr std::size_t kMaxMessage = 64 * 1024;
constexpr std::uint32_t kWindow = 32;  // requests of one direction under way
constexpr std::size_t kCounters = 16;

// Where things lie in the memory of either end.
constexpr std::size_t kSource = 0;  // constant: sent, written and read from
constexpr std::size_t kWritten = kSource + 4 * kMaxMessage;  // the peer writes here
constexpr std::size_t kWrittenBytes = 4 * kMaxMessage;
constexpr std::size_t kCounter = kWritten + kWrittenBytes;        // the peer adds to these
constexpr std::size_t kReceived = kCounter + 8 * kCounters;       // a slot a receive request
constexpr std::size_t kRead = kReceived + kWindow * kMaxMessage;  // a slot a read
constexpr std::size_t kOld = kRead + kWindow * kMaxMessage;       // a slot a fetch-add
constexpr std::size_t kMemoryBytes = kOld + 8 * kWindow;

using Bytes = std::vector<std::byte>;

// Half of all sizes are small, and every power of two, the MTU among them, has its neighbours.
std::uint32_t random_size(testing::Random& random) {
  const std::uint64_t power = std::uint64_t{1} << random.below(17);
  const std::uint64_t size =
      random.below(3) == 0 ? power + random.below(3) - 1 : random.below(power + 1);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(size, kMaxMessage));
}

// One end as requester, the other as responder, and what the responder's memory should hold.
class Direction {
 public:
  Direction(End& from, Memory& from_memory, End& to, Memory& to_memory, std::uint32_t messages,
            std::uint64_t seed)
      : from_(from),
        from_memory_(from_memory),
        to_(to),
        to_memory_(to_memory),
        messages_(messages),
        random_(seed),
        written_(kWrittenBytes, std::byte{0xcd}) {
    for (std::uint32_t slot = 0; slot < kWindow; ++slot) offer_receive();
  }
  [[nodiscard]] bool finished() const { return done_ == messages_ && arrived_ == announced_; }
  [[nodiscard]] bool can_post() const { return posted_ < messages_ && posted_ - done_ < kWindow; }

  void post() {
    const std::uint32_t slot = posted_ % kWindow;
    Expected& expected = expected_[slot];
    const std::uint32_t size = random_size(random_);
    const std::size_t source = kSource + random_.below(4 * kMaxMessage - size + 1);
    SendRequest request;
    request.id = posted_;
    request.rkey = to_memory_.region().rkey();
    request.immediate = static_cast<std::uint32_t>(random_.next());
    std::array<Segment, 2> segments{from_memory_.segment(source, size / 3),
                                    from_memory_.segment(source + size / 3, size - size / 3)};
    request.segments = segments;
    const std::uint64_t remote = to_memory_.region().remote_address();
    switch (random_.below(6)) {
      case 0:
        request.opcode = Opcode::kSend;
        announce(source, size, request);
        break;
      case 1:
        request.opcode = Opcode::kSendWithImm;
        announce(source, size, request);
        break;
      case 2:
        request.opcode = Opcode::kRdmaWriteWithImm;
        request.remote_address = remote + write(source, size);
        announce(source, size, request);
        break;
      case 3:
        request.opcode = Opcode::kRdmaWrite;
        request.remote_address = remote + write(source, size);
        break;
      case 4:
        request.opcode = Opcode::kRdmaRead;
        request.remote_address = remote + source;
        segments = {from_memory_.segment(kRead + slot * kMaxMessage, size / 3),
                    from_memory_.segment(kRead + slot * kMaxMessage + size / 3, size - size / 3)};
        break;
      default: {
        request.opcode = Opcode::kFetchAdd;
        const std::uint64_t counter = random_.below(kCounters);
        request.remote_address = remote + kCounter + 8 * counter;
        request.add_or_swap = random_.next();
        segments[0] = from_memory_.segment(kOld + 8 * slot, 8);
        request.segments = std::span(segments).first(1);
        expected.old = counters_[counter];
        counters_[counter] += request.add_or_swap;
        break;
      }
    }
    expected.opcode = request.opcode;
    expected.source = source;
    expected.size = size;
    const PostResult result = from_.send(request);
    ASSERT_EQ(result.posted, 1u) << to_string(result.error);
    ++posted_;
  }

  // A completion at the requester.
  void complete(const Completion& completion) {
    ASSERT_EQ(completion.status, Status::kSuccess)
        << "request " << completion.id << ": " << to_string(completion.status);
    ASSERT_EQ(completion.id, done_) << "requests finish in order";
    const std::uint32_t slot = done_ % kWindow;
    const Expected& expected = expected_[slot];
    ASSERT_EQ(completion.opcode, expected.opcode);
    if (expected.opcode == Opcode::kRdmaRead) {
      ASSERT_EQ(completion.size_bytes, expected.size);
      ASSERT_EQ(std::memcmp(from_memory_.data() + kRead + slot * kMaxMessage,
                            to_memory_.data() + expected.source, expected.size),
                0)
          << "read " << done_ << " of " << expected.size << " bytes";
    } else if (expected.opcode == Opcode::kFetchAdd) {
      ASSERT_EQ(from_memory_.at<std::uint64_t>(kOld + 8 * slot), expected.old)
          << "an addition was lost or made twice before request " << done_;
    }
    ++done_;
  }

  // A completion at the responder.
  void arrive(const Completion& completion) {
    ASSERT_EQ(completion.status, Status::kSuccess) << to_string(completion.status);
    ASSERT_FALSE(coming_.empty()) << "a message that nobody sent";
    const Coming expected = coming_.front();
    coming_.pop_front();
    ASSERT_EQ(completion.id, arrived_) << "receive requests are used in order";
    ASSERT_EQ(completion.opcode, expected.opcode);
    ASSERT_EQ(completion.size_bytes, expected.size);
    if (expected.opcode != Opcode::kSend) {
      ASSERT_EQ(completion.immediate, expected.immediate);
    }
    if (expected.opcode != Opcode::kRdmaWriteWithImm) {
      ASSERT_EQ(std::memcmp(to_memory_.data() + kReceived + arrived_ % kWindow * kMaxMessage,
                            from_memory_.data() + expected.source, expected.size),
                0)
          << "message " << arrived_ << " of " << expected.size << " bytes";
    }
    ++arrived_;
    offer_receive();
  }

  void expect_memory() const {
    EXPECT_EQ(std::memcmp(written_.data(), to_memory_.data() + kWritten, written_.size()), 0);
    for (std::size_t i = 0; i < kCounters; ++i) {
      EXPECT_EQ(to_memory_.at<std::uint64_t>(kCounter + 8 * i), counters_[i]);
    }
  }

 private:
  struct Expected {
    Opcode opcode = Opcode::kSend;
    std::size_t source = 0;
    std::uint32_t size = 0;
    std::uint64_t old = 0;
  };
  struct Coming {
    Opcode opcode = Opcode::kSend;
    std::size_t source = 0;
    std::uint32_t size = 0;
    std::uint32_t immediate = 0;
  };

  void offer_receive() {
    const Segment slot =
        to_memory_.segment(kReceived + offered_ % kWindow * kMaxMessage, kMaxMessage);
    ASSERT_EQ(to_.receive(offered_, slot).posted, 1u);
    ++offered_;
  }
  void announce(std::size_t source, std::uint32_t size, const SendRequest& request) {
    coming_.push_back({request.opcode, source, size, request.immediate});
    ++announced_;
  }
  // Where the peer's memory is written; the model at once, since writes of one pair keep their
  // order.
  std::size_t write(std::size_t source, std::uint32_t size) {
    const std::size_t at = random_.below(kWrittenBytes - size + 1);
    std::memcpy(written_.data() + at, from_memory_.data() + source, size);
    return kWritten + at;
  }

  End& from_;
  Memory& from_memory_;
  End& to_;
  Memory& to_memory_;
  std::uint32_t messages_;
  testing::Random random_;
  std::uint32_t posted_ = 0;
  std::uint32_t done_ = 0;
  std::uint32_t offered_ = 0;
  std::uint32_t announced_ = 0;  // messages that use a receive request
  std::uint32_t arrived_ = 0;
  std::array<Expected, kWindow> expected_;
  std::deque<Coming> coming_;
  Bytes written_;
  std::array<std::uint64_t, kCounters> counters_{};
};

struct Network {
  const char* name;
  SoftOptions options;
  std::uint32_t messages = 0;  // both directions together
};
void PrintTo(const Network& network, std::ostream* out) { *out << network.name; }

SoftOptions network(Wire wire, std::uint16_t mtu, double loss, double duplicate, double reorder) {
  SoftOptions options;
  options.wire = wire;
  options.mtu_bytes = mtu;
  options.loss = loss;
  options.duplicate = duplicate;
  options.reorder = reorder;
  return options;
}

class RandomMessages : public ::testing::TestWithParam<Network> {};
INSTANTIATE_TEST_SUITE_P(
    , RandomMessages,
    ::testing::Values(
        Network{"UdpLosesOnePercent", network(Wire::kUdp, 4096, 0.01, 0, 0), 10000},
        Network{"UdpLosesRepeatsAndReorders", network(Wire::kUdp, 1024, 0.003, 0.02, 0.02), 2000},
        Network{"UdpWithoutFaults", network(Wire::kUdp, 2048, 0, 0, 0), 2000},
        Network{"SharedMemoryWithoutFaults", network(Wire::kSharedMemory, 4096, 0, 0, 0), 10000},
        Network{"SharedMemoryLosesRepeatsAndReorders",
                network(Wire::kSharedMemory, 256, 0.001, 0.02, 0.02), 1000}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST_P(RandomMessages, ArriveOnceInOrderAndWhole) {
  EndOptions options;
  options.device = GetParam().options;
  options.cq_depth = 1024;
  // Long enough for a thread that waits for a core, eight times in a row.
  options.qp.ack_timeout_seconds = 0.05;
  options.qp.retry_count = 7;
  EndOptions other = options;
  other.device.seed = 2;
  Pair pair(options, other);
  Memory memory_a(pair.a.pd, kMemoryBytes);
  Memory memory_b(pair.b.pd, kMemoryBytes);
  memory_a.fill(11);
  memory_b.fill(12);
  for (Memory* memory : {&memory_a, &memory_b}) {
    std::memset(memory->data() + kWritten, 0xcd, kWrittenBytes);
    std::memset(memory->data() + kCounter, 0, 8 * kCounters);
  }
  const std::uint32_t each = GetParam().messages / 2 / kSlower;
  Direction to_b(pair.a, memory_a, pair.b, memory_b, each, 21);
  Direction to_a(pair.b, memory_b, pair.a, memory_a, each, 22);

  const Deadline deadline = Deadline::after(std::chrono::seconds(100));
  Backoff backoff;
  std::array<Completion, 64> completions;
  const auto poll = [&](End& end, Direction& requester, Direction& responder) {
    const std::size_t count = end.cq.poll(completions);
    for (std::size_t i = 0; i < count; ++i) {
      if (completions[i].receive) {
        responder.arrive(completions[i]);
      } else {
        requester.complete(completions[i]);
      }
    }
    return count > 0;
  };
  while (!to_a.finished() || !to_b.finished()) {
    bool progress = false;
    for (Direction* direction : {&to_a, &to_b}) {
      if (!direction->can_post()) continue;
      direction->post();
      progress = true;
    }
    progress = poll(pair.a, to_b, to_a) || progress;
    progress = poll(pair.b, to_a, to_b) || progress;
    ASSERT_FALSE(HasFatalFailure());
    ASSERT_FALSE(deadline.passed());
    if (progress) {
      backoff.reset();
    } else {
      backoff.pause();
    }
  }
  to_a.expect_memory();
  to_b.expect_memory();

  const WireCounters a = pair.a.device.counters();
  const WireCounters b = pair.b.device.counters();
  RecordProperty("packets_sent", std::to_string(a.packets_sent + b.packets_sent));
  RecordProperty("packets_dropped", std::to_string(a.packets_dropped + b.packets_dropped));
  RecordProperty("retransmissions", std::to_string(a.retransmissions + b.retransmissions));
  if (GetParam().options.loss > 0) {
    EXPECT_GT(a.packets_dropped + b.packets_dropped, 0u) << "the knob does nothing";
    EXPECT_GT(a.retransmissions + b.retransmissions, 0u);
  }
}

}  // namespace
}  // namespace rungs::verbs
