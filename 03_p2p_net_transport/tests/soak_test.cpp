// Many messages at once: both directions, several links of different carriers in one context,
// random sizes, waits in another order than the posts.

#include "two_ranks.hpp"

#include <rungs/testing/random.hpp>
#include <rungs/verbs/device.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace rungs::transport {
namespace {

constexpr std::size_t kSlotBytes = 2048;

// Sizes that both ranks draw alike: mostly small, now and then many slots.
std::vector<std::size_t> sizes(std::uint64_t seed, std::size_t count, std::size_t largest) {
  testing::Random random(seed);
  std::vector<std::size_t> drawn;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t limit = std::min(largest, std::size_t{1} << (3 + random.below(15)));
    drawn.push_back(random.below(limit + 1));
  }
  return drawn;
}

// Posts up to 20 messages ahead and takes them back in random order.
class Stream {
 public:
  Stream(Link& link, bool sends, std::uint64_t seed, std::vector<std::size_t> sizes)
      : link_(link),
        sends_(sends),
        seed_(seed),
        sizes_(std::move(sizes)),
        random_(seed ^ (sends ? 1 : 2)) {}
  [[nodiscard]] bool done() const { return next_ == sizes_.size() && pending_.empty(); }
  void step() {
    constexpr std::size_t kAhead = 20;
    const bool full = pending_.size() >= 1 + random_.below(kAhead);
    if (next_ < sizes_.size() && !full) return post();
    if (!pending_.empty()) take(random_.below(pending_.size()));
  }

 private:
  struct Pending {
    std::uint64_t number;
    std::vector<std::byte> bytes;
    Request request;
  };
  void post() {
    const std::uint64_t number = seed_ * 100000 + next_;
    const std::size_t size = sizes_[next_++];
    // A receiver leaves more room than the message needs, half of the time.
    const std::size_t room = size + (random_.below(2) == 0 ? 0 : random_.below(5000));
    Pending& added = pending_.emplace_back(
        Pending{number, sends_ ? message(number, size) : poisoned(number, room), {}});
    added.request =
        sends_ ? link_.send(added.bytes.data(), size) : link_.receive(added.bytes.data(), room);
  }
  void take(std::size_t which) {
    const auto chosen = std::next(pending_.begin(), static_cast<std::ptrdiff_t>(which));
    // Asked, not waited for: one thread drives several streams, and the peer may wait for another.
    if (!chosen->request.test()) return std::this_thread::yield();
    expect_message(chosen->number, std::span(chosen->bytes).first(chosen->request.size_bytes()));
    pending_.erase(chosen);
  }

  Link& link_;
  bool sends_;
  std::uint64_t seed_;
  std::vector<std::size_t> sizes_;
  testing::Random random_;
  std::size_t next_ = 0;
  std::list<Pending> pending_;
};

void run_streams(std::vector<Stream>& streams) {
  for (bool more = true; more;) {
    more = false;
    for (Stream& stream : streams) {
      if (!stream.done()) stream.step();
      more = more || !stream.done();
    }
  }
}

std::string as_name(const ::testing::TestParamInfo<Ranks>& info) {
  return info.param == Ranks::kThreads ? "threads" : "processes";
}

class Soak : public ::testing::TestWithParam<Ranks> {};

// Four links, one of each carrier, both directions of each, interleaved by one thread a rank.
TEST_P(Soak, AllCarriersAtOnce) {
  EXPECT_EQ(run_two(GetParam(),
                    [](Rank& self) {
                      std::vector<Link> links;
                      std::vector<Stream> streams;
                      for (const Kind kind : kAllKinds) {
                        LinkOptions options;
                        options.kind = kind;
                        options.slot_bytes = kSlotBytes;
                        options.tag = static_cast<std::uint64_t>(kind);
                        links.push_back(self.context.connect(self.peer, options));
                      }
                      std::uint64_t seed = 1;
                      for (Link& link : links) {
                        for (int sender = 0; sender < 2; ++sender, ++seed) {
                          streams.emplace_back(link, self.rank == sender, seed,
                                               sizes(seed, 150, 100000));
                        }
                      }
                      run_streams(streams);
                    }),
            "");
}

// Three ranks, a link between every two: a context drives several peers.
TEST_P(Soak, ThreeRanks) {
  const auto outcomes = run_ranks(GetParam(), 3, [](Rank& self) {
    std::vector<Link> links;
    std::vector<Stream> streams;
    links.reserve(2);
    for (int low = 0; low < 3; ++low) {
      for (int high = low + 1; high < 3; ++high) {
        if (self.rank != low && self.rank != high) continue;
        LinkOptions options;
        options.slot_bytes = kSlotBytes;
        options.kind = high - low == 2 ? Kind::kSocket : Kind::kSharedMemory;
        links.push_back(self.context.connect(self.rank == low ? high : low, options));
        for (const bool low_sends : {true, false}) {
          const std::uint64_t seed = 10u * static_cast<unsigned>(low) +
                                     static_cast<unsigned>(high) + (low_sends ? 100 : 0);
          streams.emplace_back(links.back(), low_sends == (self.rank == low), seed,
                               sizes(seed, 150, 100000));
        }
      }
    }
    run_streams(streams);
  });
  EXPECT_EQ(testing::failures(outcomes), "");
}

INSTANTIATE_TEST_SUITE_P(, Soak, ::testing::Values(Ranks::kThreads, Ranks::kProcesses), as_name);

// The blocking schedule: a thread each way, as its contract asks.
TEST(SoakBlocking, BothDirectionsFromTwoThreads) {
  for (const Kind kind : kAllKinds) {
    EXPECT_EQ(run_two(Ranks::kThreads,
                      [kind](Rank& self) {
                        LinkOptions options;
                        options.kind = kind;
                        options.schedule = Schedule::kBlocking;
                        options.slot_bytes = kSlotBytes;
                        Link link = self.context.connect(self.peer, options);
                        const auto drawn = sizes(7, 60, 30000);
                        std::exception_ptr failure;
                        std::thread receiver([&] {
                          try {
                            self.device.make_current();
                            for (std::size_t i = 0; i < drawn.size(); ++i) {
                              auto bytes = poisoned(i, drawn[i]);
                              link.receive(bytes.data(), bytes.size()).wait();
                              expect_message(i, bytes);
                            }
                          } catch (...) {
                            failure = std::current_exception();
                          }
                        });
                        try {
                          for (std::size_t i = 0; i < drawn.size(); ++i) {
                            const auto bytes = message(i, drawn[i]);
                            link.send(bytes.data(), bytes.size()).wait();
                          }
                        } catch (...) {
                          receiver.join();
                          throw;
                        }
                        receiver.join();
                        if (failure) std::rethrow_exception(failure);
                      }),
              "")
        << to_string(kind);
  }
}

// A network that drops, repeats and reorders packets shows in nothing but time.
TEST(SoakVerbs, OverUdpWithLoss) {
  EXPECT_EQ(run_two(Ranks::kThreads,
                    [](Rank& self) {
                      verbs::SoftOptions soft;
                      soft.wire = verbs::Wire::kUdp;
                      soft.loss = 0.01;
                      soft.duplicate = 0.01;
                      soft.reorder = 0.01;
                      soft.seed = 77 + static_cast<std::uint64_t>(self.rank);
                      self.context.add_verbs_device("lossy", verbs::Device::open_soft(soft));
                      LinkOptions options;
                      options.kind = Kind::kVerbs;
                      options.verbs_device = "lossy";
                      options.slot_bytes = 16 * kSlotBytes;
                      Link link = self.context.connect(self.peer, options);
                      std::vector<Stream> streams;
                      for (int sender = 0; sender < 2; ++sender) {
                        streams.emplace_back(link, self.rank == sender, 50u + sender,
                                             sizes(50u + sender, 100, 100000));
                      }
                      run_streams(streams);
                      self.group.barrier();
                    }),
            "");
}

class Big : public ::testing::TestWithParam<Kind> {};

// 64 MiB and a few bytes, at the default slot size.
TEST_P(Big, SixtyFourMebibytes) {
  constexpr std::size_t kSize = (std::size_t{64} << 20) + 3;
  EXPECT_EQ(run_two(Ranks::kThreads,
                    [](Rank& self) {
                      LinkOptions options;
                      options.kind = GetParam();
                      Link link = self.context.connect(self.peer, options);
                      if (self.rank == 0) {
                        const auto bytes = message(5, kSize);
                        link.send(bytes.data(), kSize).wait();
                      } else {
                        std::vector<std::byte> bytes(kSize, std::byte{0xff});
                        link.receive(bytes.data(), kSize).wait();
                        expect_message(5, bytes);
                      }
                    }),
            "");
}

INSTANTIATE_TEST_SUITE_P(, Big, ::testing::ValuesIn(kAllKinds),
                         [](const auto& tested) { return std::string(to_string(tested.param)); });

}  // namespace
}  // namespace rungs::transport
