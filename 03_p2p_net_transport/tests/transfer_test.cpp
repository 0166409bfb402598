// Bytes arrive as they were sent: every carrier x schedule, threads and processes, sizes around a
// slot's edges, host and device memory.

#include "two_ranks.hpp"

#include <rungs/gpu/buffer.hpp>
#include <rungs/gpu/stream.hpp>
#include <rungs/testing/gpu_test.hpp>

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace rungs::transport {
namespace {

constexpr std::size_t kSlotBytes = 4096;
const std::size_t kSizes[] = {0,
                              1,
                              77,
                              kSlotBytes - 1,
                              kSlotBytes,
                              kSlotBytes + 1,
                              3 * kSlotBytes,
                              8 * kSlotBytes + 5,
                              40 * kSlotBytes - 3};

using Parameters = std::tuple<Kind, Schedule, Ranks>;

class Transfer : public ::testing::TestWithParam<Parameters> {
 protected:
  static LinkOptions options() {
    return link_options(std::get<0>(GetParam()), std::get<1>(GetParam()), kSlotBytes);
  }
  static Ranks ranks() { return std::get<2>(GetParam()); }
};

// Rank 0 sends all sizes to rank 1, then the other way round.
TEST_P(Transfer, EverySizeBothWays) {
  EXPECT_EQ(run_two(ranks(),
                    [](Rank& self) {
                      Link link = self.context.connect(self.peer, options());
                      expect(link.peer() == self.peer && link.kind() == *options().kind,
                             "peer and kind");
                      for (int sender = 0; sender < 2; ++sender) {
                        std::uint64_t seed = 100 * static_cast<std::uint64_t>(sender);
                        for (const std::size_t size : kSizes) {
                          ++seed;
                          if (self.rank == sender) {
                            const auto bytes = message(seed, size);
                            link.send(bytes.data(), size).wait();
                          } else {
                            auto bytes = poisoned(seed, size);
                            Request request = link.receive(bytes.data(), size);
                            request.wait();
                            expect(request.size_bytes() == size, "the size that was sent");
                            expect_message(seed, bytes);
                          }
                        }
                      }
                    }),
            "");
}

// The buffer may be longer than the message; what lies behind stays.
TEST_P(Transfer, ShorterThanTheRoom) {
  EXPECT_EQ(
      run_two(ranks(),
              [](Rank& self) {
                Link link = self.context.connect(self.peer, options());
                constexpr std::size_t kRoom = 5 * kSlotBytes;
                std::uint64_t seed = 0;
                for (const std::size_t size : {std::size_t{0}, std::size_t{5}, kSlotBytes + 3}) {
                  ++seed;
                  if (self.rank == 0) {
                    const auto bytes = message(seed, size);
                    link.send(bytes.data(), size).wait();
                    continue;
                  }
                  auto bytes = poisoned(seed, kRoom);
                  const auto untouched = bytes;
                  Request request = link.receive(bytes.data(), kRoom);
                  request.wait();
                  expect(request.size_bytes() == size, "the size that was sent");
                  expect_message(seed, std::span(bytes).first(size));
                  expect(std::equal(bytes.begin() + static_cast<std::ptrdiff_t>(size), bytes.end(),
                                    untouched.begin() + static_cast<std::ptrdiff_t>(size)),
                         "nothing was written behind the message");
                }
              }),
      "");
}

// A message that does not fit is refused on both sides, with both sizes; the next one passes.
TEST_P(Transfer, LongerThanTheRoom) {
  constexpr std::size_t kLong = 30 * kSlotBytes;
  const std::pair<std::size_t, std::size_t> sizes_and_rooms[] = {
      {1, 0}, {kSlotBytes, 100}, {kLong, 0}, {kLong, 100}, {kLong, 2 * kSlotBytes}};
  EXPECT_EQ(run_two(ranks(),
                    [&](Rank& self) {
                      Link link = self.context.connect(self.peer, options());
                      for (const auto& [size, room] : sizes_and_rooms) {
                        std::vector<std::byte> bytes = message(1, size);
                        expect_error(
                            ErrorCode::kInvalidArgument,
                            {"message", std::to_string(size) + " bytes", std::to_string(room)},
                            [&] {
                              if (self.rank == 0) link.send(bytes.data(), size).wait();
                              if (self.rank == 1) link.receive(bytes.data(), room).wait();
                            });
                        // The link goes on. Memory of the refused message is free to be reused.
                        bytes = self.rank == 0 ? message(2, kLong) : poisoned(2, kLong);
                        if (self.rank == 0) link.send(bytes.data(), kLong).wait();
                        if (self.rank == 1) link.receive(bytes.data(), kLong).wait();
                        expect_message(2, bytes);
                      }
                    }),
            "");
}

// A send is done when the receiver has taken it, not when it is on its way.
TEST_P(Transfer, SendWaitsForItsReceive) {
  if (std::get<1>(GetParam()) == Schedule::kBlocking) return;  // send() itself waits
  EXPECT_EQ(run_two(ranks(),
                    [](Rank& self) {
                      Link link = self.context.connect(self.peer, options());
                      std::byte byte{7};
                      Request send = self.rank == 0 ? link.send(&byte, 1) : Request();
                      self.group.barrier();
                      if (self.rank == 0) expect(!send.test(), "nothing was received yet");
                      self.group.barrier();
                      if (self.rank == 0) send.wait();
                      if (self.rank == 1) link.receive(&byte, 1).wait();
                    }),
            "");
}

// Device memory, with work before it on the caller's stream.
TEST_P(Transfer, DeviceMemory) {
  // Forked ranks open the device themselves: this process must not.
  if (ranks() == Ranks::kThreads) RUNGS_NEEDS_DEVICE();
  EXPECT_EQ(
      run_two(ranks(),
              [](Rank& self) {
                Link link = self.context.connect(self.peer, options());
                const gpu::Stream stream(self.device);
                std::uint64_t seed = 0;
                for (const std::size_t size : kSizes) {
                  ++seed;
                  const std::size_t room = size + 1;
                  const auto bytes = self.rank == 0 ? message(seed, room) : poisoned(seed, room);
                  gpu::Buffer<std::byte> memory(self.device, room);
                  gpu::copy_async(memory.data(), bytes.data(), room, stream);
                  if (self.rank == 0) {
                    link.send(memory.data(), size, true, stream).wait();
                    gpu::synchronize(stream);
                    continue;
                  }
                  Request request = link.receive(memory.data(), room, true, stream);
                  request.wait();
                  const auto got = memory.download(stream);
                  expect(request.size_bytes() == size, "the size that was sent");
                  expect_message(seed, std::span(got).first(size));
                  expect(got.back() == bytes.back(), "the byte behind the message is untouched");
                }
              }),
      "");
}

std::string name(const ::testing::TestParamInfo<Parameters>& info) {
  const auto& [kind, schedule, ranks] = info.param;
  return concat(to_string(kind), '_', to_string(schedule), '_',
                ranks == Ranks::kThreads ? "threads" : "processes");
}

INSTANTIATE_TEST_SUITE_P(, Transfer,
                         ::testing::Combine(::testing::ValuesIn(kAllKinds),
                                            ::testing::Values(Schedule::kBlocking,
                                                              Schedule::kPipelined),
                                            ::testing::Values(Ranks::kThreads, Ranks::kProcesses)),
                         name);

}  // namespace
}  // namespace rungs::transport
