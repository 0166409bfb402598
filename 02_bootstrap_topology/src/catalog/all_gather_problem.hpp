#pragma once
/// @file all_gather_problem.hpp
/// One all_gather of the catalog: ranks as threads of this process, over loopback.

#include <rungs/bootstrap/group.hpp>
#include <rungs/ladder/build.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace rungs::bootstrap {

struct AllGatherArgs {
  int ranks = 1;
  std::size_t block = 0;          ///< elements a rank
  std::span<const float> blocks;  ///< [ranks, block]: what each rank gives
  std::span<float> results;       ///< [ranks, ranks, block]: what each rank gets
};

extern const std::array<ladder::Rung<AllGatherArgs>, 3> kAllGatherLadder;

class AllGatherProblem final : public ladder::Problem<AllGatherArgs> {
 public:
  AllGatherProblem(int ranks, std::size_t block_bytes, std::uint64_t seed);
  AllGatherArgs args() override;
  void reset() override;
  std::vector<float> output() override { return results_; }
  ladder::Reference reference() override;
  double bound(std::size_t) override { return 0; }
  std::string describe(std::size_t element) override;

 private:
  int ranks_;
  std::size_t block_;
  std::vector<float> blocks_;
  std::vector<float> results_;
};

}  // namespace rungs::bootstrap
