#pragma once
// Training steps of four ranks on two pretend nodes as the ladder sees them: gradients summed after
// the backward pass, then in buckets on the way, then all of it in one graph a rank.

#include <rungs/ladder/build.hpp>
#include <rungs/training/trainer.hpp>

#include <array>
#include <cstdint>
#include <vector>

namespace rungs::training {

inline constexpr int kCatalogRanks = 4;
inline constexpr int kCatalogNodes = 2;

/// `steps` steps from the initial weights, by threads of this process.
struct RankStepArgs {
  const ModelConfig* model = nullptr;
  const TrainConfig* train = nullptr;
  const Corpus* corpus = nullptr;
  int steps = 1;
  double* first_loss = nullptr;              // host: the report of step 1, of rank 0
  std::vector<float>* parameters = nullptr;  // host [ranks]: after the last step
};

/// The array is the ladder, naive first.
extern const std::array<ladder::Rung<RankStepArgs>, 3> kRankStepLadder;

struct RankStepShape {
  ModelConfig model;
  int batch = 4;  // of all ranks
  int steps = 2;
};

/// Output: loss of the first step, then every rank's parameters after the last.
class RankStepProblem final : public ladder::Problem<RankStepArgs> {
 public:
  RankStepProblem(const RankStepShape& shape, std::uint64_t seed);
  RankStepArgs args() override;
  void reset() override;
  std::vector<float> output() override;
  ladder::Reference reference() override;
  double bound(std::size_t element) override;
  std::string describe(std::size_t element) override;

 private:
  RankStepShape shape_;
  TrainConfig train_;
  Corpus corpus_;
  double first_loss_ = 0;
  std::array<std::vector<float>, kCatalogRanks> parameters_;
};

}  // namespace rungs::training
