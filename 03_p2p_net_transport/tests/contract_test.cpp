// What connect(), send() and receive() refuse, and with which words.

#include "two_ranks.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace rungs::transport {
namespace {

// Both ranks must get the error: each passes its own options.
void expect_disagreement(const std::function<void(int rank, LinkOptions&)>& change,
                         const std::vector<std::string>& parts) {
  EXPECT_EQ(run_two(Ranks::kThreads,
                    [&](Rank& self) {
                      LinkOptions options;
                      options.kind = Kind::kSharedMemory;
                      change(self.rank, options);
                      expect_error(ErrorCode::kInvalidArgument, parts,
                                   [&] { (void)self.context.connect(self.peer, options); });
                      // The pair is none the worse for it.
                      (void)self.context.connect(self.peer, {});
                    }),
            "");
}

TEST(Handshake, NamesBothKinds) {
  expect_disagreement(
      [](int rank, LinkOptions& options) {
        if (rank == 1) options.kind = Kind::kSocket;
      },
      {"the kind", "rank 0", "shared_memory", "rank 1", "socket"});
  expect_disagreement(
      [](int rank, LinkOptions& options) {
        if (rank == 1) options.kind = {};
      },
      {"the kind", "shared_memory", "the best"});
}

TEST(Handshake, NamesBothSchedules) {
  expect_disagreement(
      [](int rank, LinkOptions& options) {
        if (rank == 1) options.schedule = Schedule::kBlocking;
      },
      {"the schedule", "blocking", "pipelined"});
}

TEST(Handshake, NamesBothSlotSizesAndTags) {
  expect_disagreement([](int rank, LinkOptions& options) { options.slot_bytes = 4096u + rank; },
                      {"slot_bytes", "4096", "4097"});
  expect_disagreement([](int rank, LinkOptions& options) { options.tag = 70u + rank; },
                      {"the tag", "70", "71"});
}

TEST(Handshake, RefusesBadOptions) {
  EXPECT_EQ(run_two(Ranks::kThreads,
                    [](Rank& self) {
                      for (const int peer : {-1, 2, self.rank}) {
                        expect_error(ErrorCode::kInvalidArgument, {"peer", std::to_string(peer)},
                                     [&] { (void)self.context.connect(peer, {}); });
                      }
                      for (const std::size_t bytes :
                           {std::size_t{0}, std::size_t{63}, (std::size_t{64} << 20) + 1}) {
                        LinkOptions options;
                        options.slot_bytes = bytes;
                        expect_error(ErrorCode::kInvalidArgument,
                                     {"slot_bytes", std::to_string(bytes)},
                                     [&] { (void)self.context.connect(self.peer, options); });
                      }
                    }),
            "");
}

// What one end lacks, both are told.
TEST(Handshake, SaysWhatThePeerLacks) {
  EXPECT_EQ(run_two(Ranks::kThreads,
                    [](Rank& self) {
                      Context context(self.group, self.rank == 0 ? &self.device : nullptr);
                      LinkOptions options;
                      options.kind = Kind::kGpuPeer;
                      expect_error(ErrorCode::kUnsupported, {"gpu_peer", "rank 1", "device"},
                                   [&] { (void)context.connect(self.peer, options); });
                      options.kind = Kind::kVerbs;
                      if (self.rank == 1) options.verbs_device = "soft_o";
                      expect_error(
                          self.rank == 1 ? ErrorCode::kInvalidArgument : ErrorCode::kSystem,
                          {"soft_o"}, [&] { (void)context.connect(self.peer, options); });
                    }),
            "");
}

TEST(Handshake, WaitsOnlySoLong) {
  EXPECT_EQ(run_two(Ranks::kThreads,
                    [](Rank& self) {
                      LinkOptions options;
                      options.timeout_seconds = 0.05;
                      if (self.rank == 0) {
                        expect_error(ErrorCode::kTimeout, {"rank 1"},
                                     [&] { (void)self.context.connect(1, options); });
                      }
                      self.group.barrier();
                    }),
            "");
}

// The best that both can use.
TEST(Handshake, ChoosesTheBest) {
  EXPECT_EQ(run_two(Ranks::kThreads,
                    [](Rank& self) {
                      expect(self.context.connect(self.peer).kind() == Kind::kGpuPeer,
                             "GPU peer memory where both have a device");
                      Context context(self.group, self.rank == 0 ? &self.device : nullptr);
                      expect(context.connect(self.peer).kind() == Kind::kSharedMemory,
                             "shared memory where one has none");
                    }),
            "");
}

TEST(Contract, SupportsSaysWhyNot) {
  EXPECT_EQ(run_two(Ranks::kThreads,
                    [](Rank& self) {
                      for (const Kind kind : kAllKinds) {
                        expect(self.context.supports(self.peer, kind).ok, to_string(kind));
                        expect(!self.context.supports(self.rank, kind).ok, "no link to oneself");
                        expect(!self.context.supports(7, kind).ok, "no such rank");
                      }
                      const Context context(self.group, nullptr);
                      const ladder::Support support = context.supports(self.peer, Kind::kGpuPeer);
                      expect(!support.ok && support.reason.find("device") != std::string_view::npos,
                             "a reason that speaks of the device");
                    }),
            "");
}

TEST(Contract, RefusesBadArguments) {
  EXPECT_EQ(run_two(Ranks::kThreads,
                    [](Rank& self) {
                      Context context(self.group, nullptr);
                      Link link = context.connect(self.peer, {});
                      std::byte byte{};
                      expect_error(ErrorCode::kInvalidArgument, {"send", "null", "3 bytes"},
                                   [&] { (void)link.send(nullptr, 3); });
                      expect_error(ErrorCode::kInvalidArgument, {"receive", "null"},
                                   [&] { (void)link.receive(nullptr, 3); });
                      expect_error(ErrorCode::kInvalidArgument, {"device"},
                                   [&] { (void)link.receive(&byte, 1, true); });
                      Request empty;
                      expect_error(ErrorCode::kInvalidArgument, {"empty"}, [&] { empty.wait(); });
                      expect_error(ErrorCode::kInvalidArgument, {"empty"},
                                   [&] { (void)empty.test(); });
                      // A refused call has taken no number: message 0 is still to come.
                      Request pending = self.rank == 0 ? link.receive(&byte, 1) : Request();
                      if (self.rank == 0) {
                        expect_error(ErrorCode::kInvalidArgument, {"not done"},
                                     [&] { (void)pending.size_bytes(); });
                        expect(!pending.test(), "nothing was sent yet");
                        self.group.barrier();
                        pending.wait();
                        expect(pending.test() && byte == std::byte{9}, "message 0");
                      } else {
                        self.group.barrier();
                        byte = std::byte{9};
                        link.send(&byte, 1).wait();
                      }
                    }),
            "");
}

TEST(Contract, KindNames) {
  for (const Kind kind : kAllKinds) EXPECT_EQ(kind_from_string(to_string(kind)), kind);
  EXPECT_NO_THROW(expect_error(ErrorCode::kInvalidArgument, {"sokcet", "did you mean 'socket'"},
                               [] { (void)kind_from_string("sokcet"); }));
}

}  // namespace
}  // namespace rungs::transport
