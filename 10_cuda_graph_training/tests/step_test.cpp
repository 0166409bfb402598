#include "step.hpp"

#include <gtest/gtest.h>

#include "trainer_fixture.hpp"

namespace rungs::training {
namespace {

// Parameters after a few steps whose own kernels run on grids for so many SMs.
std::vector<float> parameters_with_grids_for(int sm_count) {
  const gpu::Stream stream(device());
  TrainingStep step(tiny_model(), tiny_training(), small_corpus(), device(), stream);
  const gpu::Queue queue{.stream = stream, .sm_count = sm_count};
  for (int i = 0; i < 3; ++i) step.enqueue(queue);
  stream.synchronize();
  EXPECT_EQ(step.report().step, 3u);
  return step.parameters(stream);
}

TEST(TrainingStep, SameBitsWhateverTheGrid) {
  const auto one = parameters_with_grids_for(1);
  for (const int sm_count : {2, 7, 132}) {
    EXPECT_EQ(testing::first_bit_difference(parameters_with_grids_for(sm_count), one), "")
        << sm_count << " SMs";
  }
}

TEST(TrainingStep, PaddingBetweenParametersStaysZero) {
  const gpu::Stream stream(device());
  ModelConfig model = tiny_model();
  model.experts = 3;
  model.context = 7;
  TrainingStep step(model, tiny_training(), small_corpus(), device(), stream);
  for (int i = 0; i < 3; ++i) step.enqueue(step.queue(stream));
  const auto weights = step.parameters(stream);
  std::vector<char> used(weights.size(), 0);
  for (const Parameter& p : step.layout().parameters()) {
    for (std::int64_t i = 0; i < p.count(); ++i) used[static_cast<std::size_t>(p.offset + i)] = 1;
  }
  for (std::size_t i = 0; i < weights.size(); ++i) {
    ASSERT_TRUE(used[i] != 0 || weights[i] == 0.0f) << "element " << i;
  }
}

}  // namespace
}  // namespace rungs::training
