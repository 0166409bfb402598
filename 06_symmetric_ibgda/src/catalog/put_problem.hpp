#pragma once
/// @file put_problem.hpp
/// Messages that go to and fro between two kernels, with their oracle, and the rungs that carry
/// them.

#include <rungs/gpu/buffer.hpp>
#include <rungs/ladder/build.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace rungs::symmetric {

inline constexpr int kPutRanks = 2;

/// How much of it.
struct PutShape {
  std::size_t size_bytes;   ///< of one message
  std::size_t round_trips;  ///< in one kernel; each has a window of its own
};

/// The call, with pointers by rank: rank 0 puts message i into rank 1's window i, rank 1 puts what
/// it got into rank 0's.
struct PutArgs {
  PutShape shape;
  std::vector<gpu::Device> devices;
  const std::uint8_t* send;  ///< [round_trips, size_bytes]; rank 0's device
  std::vector<std::uint8_t*>
      recv;  ///< of each rank: what its windows hold in the end, the same size
};

/// Random bytes, each message its own, compared byte for byte at both ends.
class PutProblem final : public ladder::Problem<PutArgs> {
 public:
  PutProblem(const PutShape& shape, std::uint64_t seed);
  PutArgs args() override;
  void reset() override;
  std::vector<float> output() override;
  ladder::Reference reference() override;
  double bound(std::size_t) override { return 0; }
  std::string describe(std::size_t element) override;

 private:
  [[nodiscard]] std::size_t total() const { return shape_.size_bytes * shape_.round_trips; }

  PutShape shape_;
  std::vector<gpu::Device> devices_;
  std::vector<std::uint8_t> sent_;
  gpu::Buffer<std::uint8_t> send_;
  std::vector<gpu::Buffer<std::uint8_t>> recv_;
};

/// The naive rung first.
extern const std::array<ladder::Rung<PutArgs>, 3> kPutLadder;

}  // namespace rungs::symmetric
