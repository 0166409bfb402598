// Peers that die, close or do not answer: every wait ends, says who, which message and how far, and
// nothing is left behind.

#include "two_ranks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

namespace rungs::transport {
namespace {

constexpr std::size_t kSlotBytes = 4096;
constexpr std::size_t kManySlots = 64 * kSlotBytes;

using Parameters = std::tuple<Kind, Schedule>;

class Fault : public ::testing::TestWithParam<Parameters> {
 protected:
  static LinkOptions options() {
    return link_options(std::get<0>(GetParam()), std::get<1>(GetParam()), kSlotBytes);
  }
  static bool blocking() { return std::get<1>(GetParam()) == Schedule::kBlocking; }
};

Request move(Link& link, bool send, std::vector<std::byte>& bytes) {
  return send ? link.send(bytes.data(), bytes.size()) : link.receive(bytes.data(), bytes.size());
}

// Messages pass one after the other until rank 1 is killed from a second thread.
void expect_survivor(const LinkOptions& options, bool survivor_sends) {
  const auto outcomes = run_ranks(Ranks::kProcesses, 2, [&](Rank& self) {
    Link link = self.context.connect(self.peer, options);
    std::atomic<int> passed = 0;
    std::vector<std::byte> bytes = message(1, kManySlots);
    if (self.rank == 1) {
      std::thread([&] {
        while (passed < 3) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        (void)raise(SIGKILL);
      }).detach();
    }
    const bool sends = (self.rank == 0) == survivor_sends;
    const auto all = [&] {
      for (;; ++passed) move(link, sends, bytes).wait();
    };
    if (self.rank == 1) all();
    const std::string text = expect_error(
        ErrorCode::kPeerLost,
        {"rank 1", "message ", to_string(*options.kind), " of ", " bytes had passed"}, all);
    expect(passed >= 2, concat("some messages passed before: ", text));
    // What follows on this link fails at once, with the cause.
    expect_error(ErrorCode::kPeerLost, {"rank 1"}, [&] { move(link, sends, bytes).wait(); });
  });
  EXPECT_TRUE(outcomes[0].ok) << outcomes[0].text;
  EXPECT_NE(outcomes[1].text.find("signal 9"), std::string::npos) << outcomes[1].text;
}

TEST_P(Fault, ReceiverIsKilled) { expect_survivor(options(), true); }
TEST_P(Fault, SenderIsKilled) { expect_survivor(options(), false); }

// The peer destroys its link while a message of many slots is pending.
TEST_P(Fault, PeerClosesTheLink) {
  for (const bool sends : {true, false}) {
    EXPECT_EQ(run_two(Ranks::kThreads,
                      [sends](Rank& self) {
                        std::optional<Link> link = self.context.connect(self.peer, options());
                        std::vector<std::byte> bytes = message(1, kManySlots);
                        if (self.rank == 1) {
                          std::vector<std::byte> one(1);
                          move(*link, !sends, one).wait();
                          link.reset();
                          self.group.barrier();
                          return;
                        }
                        std::vector<std::byte> one(1);
                        move(*link, sends, one).wait();
                        expect_error(ErrorCode::kPeerLost, {"rank 1", "message 1", "0 of"},
                                     [&] { move(*link, sends, bytes).wait(); });
                        self.group.barrier();
                      }),
              "")
        << (sends ? "sending" : "receiving");
  }
}

// A rank that gives up tells the others why.
TEST_P(Fault, PeerAborts) {
  std::atomic<bool> seen = false;  // until then rank 1 keeps its link open
  EXPECT_EQ(run_two(Ranks::kThreads,
                    [&seen](Rank& self) {
                      Link link = self.context.connect(self.peer, options());
                      std::vector<std::byte> bytes(kManySlots);
                      if (self.rank == 1) {
                        self.group.abort("out of ideas");
                        while (!seen) std::this_thread::yield();
                        return;
                      }
                      expect_error(ErrorCode::kPeerLost, {"rank 1", "message 0", "out of ideas"},
                                   [&] { link.receive(bytes.data(), bytes.size()).wait(); });
                      seen = true;
                    }),
            "");
}

TEST_P(Fault, NobodyAnswers) {
  EXPECT_EQ(run_two(Ranks::kThreads,
                    [](Rank& self) {
                      LinkOptions given = options();
                      given.timeout_seconds = blocking() ? 0.5 : 60;  // connecting takes it too
                      Link link = self.context.connect(self.peer, given);
                      std::vector<std::byte> bytes = poisoned(3, kManySlots);
                      if (self.rank == 1) {
                        self.group.barrier();
                        if (!blocking())
                          link.send(message(3, kManySlots).data(), kManySlots).wait();
                        return;
                      }
                      Request request;
                      expect_error(ErrorCode::kTimeout,
                                   {"rank 1", "message 0", "0 of at most", "waited"}, [&] {
                                     request = link.receive(bytes.data(), bytes.size());
                                     request.wait(Deadline::after(std::chrono::milliseconds(50)));
                                   });
                      self.group.barrier();
                      if (blocking()) return;
                      request.wait();  // it was late, not lost
                      expect_message(3, bytes);
                    }),
            "");
}

// Whoever destroys a link has its own pending requests ended, and the memory back.
TEST(FaultPipelined, OwnLinkDestroyed) {
  for (const Kind kind : kAllKinds) {
    EXPECT_EQ(run_two(Ranks::kThreads,
                      [kind](Rank& self) {
                        LinkOptions options;
                        options.kind = kind;
                        options.slot_bytes = kSlotBytes;
                        std::optional<Link> link = self.context.connect(self.peer, options);
                        std::vector<std::byte> out(kManySlots);
                        std::vector<std::byte> in(kManySlots);
                        if (self.rank == 0) {
                          Request send = link->send(out.data(), out.size());
                          Request receive = link->receive(in.data(), in.size());
                          link.reset();
                          for (Request* request : {&send, &receive}) {
                            expect_error(ErrorCode::kInvalidArgument,
                                         {"rank 1", "this rank destroyed the link"},
                                         [&] { request->wait(); });
                          }
                        }
                        self.group.barrier();
                      }),
              "")
        << to_string(kind);
  }
}

std::size_t entries_in(const char* folder) {
  const std::filesystem::directory_iterator entries(folder);
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

// Descriptors, threads and mappings, after links that ended well and links that did not.
TEST(FaultLeftovers, Nothing) {
  const auto all_kinds = [] {
    for (const Kind kind : kAllKinds) {
      for (const Schedule schedule : {Schedule::kBlocking, Schedule::kPipelined}) {
        EXPECT_EQ(run_two(Ranks::kThreads,
                          [=](Rank& self) {
                            LinkOptions options;
                            options.kind = kind;
                            options.schedule = schedule;
                            options.slot_bytes = kSlotBytes;
                            std::optional<Link> link = self.context.connect(self.peer, options);
                            std::vector<std::byte> bytes = message(1, kManySlots);
                            move(*link, self.rank == 0, bytes).wait();
                            if (self.rank == 0) link.reset();
                            if (self.rank == 1) {
                              expect_error(ErrorCode::kPeerLost, {"rank 0"},
                                           [&] { move(*link, false, bytes).wait(); });
                            }
                          }),
                  "");
        // A pair that disagrees leaves nothing either.
        EXPECT_EQ(run_two(Ranks::kThreads,
                          [=](Rank& self) {
                            LinkOptions options;
                            options.kind = kind;
                            options.slot_bytes = 4096u + self.rank;
                            expect_error(ErrorCode::kInvalidArgument, {"slot_bytes"},
                                         [&] { (void)self.context.connect(self.peer, options); });
                          }),
                  "");
      }
    }
  };
  all_kinds();  // the devices start their workers, the sanitizers theirs
  const std::size_t descriptors = entries_in("/proc/self/fd");
  const std::size_t threads = entries_in("/proc/self/task");
  all_kinds();
  EXPECT_EQ(entries_in("/proc/self/fd"), descriptors);
  EXPECT_EQ(entries_in("/proc/self/task"), threads);
}

std::string name(const ::testing::TestParamInfo<Parameters>& info) {
  return concat(to_string(std::get<0>(info.param)), '_', to_string(std::get<1>(info.param)));
}

INSTANTIATE_TEST_SUITE_P(, Fault,
                         ::testing::Combine(::testing::ValuesIn(kAllKinds),
                                            ::testing::Values(Schedule::kBlocking,
                                                              Schedule::kPipelined)),
                         name);

}  // namespace
}  // namespace rungs::transport
