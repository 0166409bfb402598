#pragma once
/// @file transfer_problem.hpp
/// Two software HCAs in one process with a connected pair of queue pairs, the bytes to be moved and
/// the judge of what arrived: what the harness and the tests run the two ladders on.

#include <rungs/ladder/build.hpp>
#include <rungs/verbs/ladder.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace rungs::verbs {

/// One set of sizes.
struct TransferShape {
  std::uint32_t messages = 1;
  std::uint32_t message_bytes = 1;
  Wire wire = Wire::kSharedMemory;
  std::uint32_t queue_depth = 128;
};

/// "4096 x 8 B, shared memory"
std::string to_string(const TransferShape& shape);

/// A device with one queue pair and one region.
struct TransferEnd {
  TransferEnd(const TransferShape& shape, std::size_t size_bytes);
  Device device;
  ProtectionDomain pd;
  CompletionQueue send_cq;
  CompletionQueue recv_cq;
  QueuePair queue_pair;
  std::vector<std::uint8_t> memory;
  MemoryRegion region;
};

/// Both ends, with guards around what the messages fill at the destination.
class Transfer {
 public:
  Transfer(const TransferShape& shape, std::uint64_t seed);
  /// Every byte of the destination becomes one that the source does not have there.
  void poison();
  /// The destination's bytes with both guards, then the source's.
  [[nodiscard]] std::vector<float> output() const;
  /// What output() should be, from the seed.
  [[nodiscard]] ladder::Reference reference() const;
  [[nodiscard]] std::string describe(std::size_t element) const;
  [[nodiscard]] WriteArgs write_args();
  [[nodiscard]] SendArgs send_args();
  /// What both devices have counted since they were opened, added up.
  [[nodiscard]] WireCounters counters() const;

 private:
  [[nodiscard]] std::size_t payload_bytes() const;
  TransferShape shape_;
  std::vector<std::uint8_t> expected_;  // never registered: no rung can reach it
  TransferEnd from_;
  TransferEnd to_;
  MemoryRegion landing_;  // the destination without its guards
};

/// The same for either ladder.
template <class Args>
class TransferProblem final : public ladder::Problem<Args> {
 public:
  TransferProblem(const TransferShape& shape, std::uint64_t seed) : transfer_(shape, seed) {}
  Args args() override {
    if constexpr (std::is_same_v<Args, WriteArgs>) {
      return transfer_.write_args();
    } else {
      return transfer_.send_args();
    }
  }
  void reset() override { transfer_.poison(); }
  std::vector<float> output() override { return transfer_.output(); }
  ladder::Reference reference() override { return transfer_.reference(); }
  double bound(std::size_t) override { return 0; }
  std::string describe(std::size_t element) override { return transfer_.describe(element); }
  [[nodiscard]] WireCounters counters() const { return transfer_.counters(); }

 private:
  Transfer transfer_;
};

}  // namespace rungs::verbs
