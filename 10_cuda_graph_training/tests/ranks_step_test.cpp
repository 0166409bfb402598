// The step over several ranks from inside: nothing of it waits for the host or runs on it.
#include <rungs/gpu/counters.hpp>
#include <rungs/gpu/graph.hpp>

#include <gtest/gtest.h>

#include <optional>

#include "hold.hpp"
#include "rank_group.hpp"
#include "rank_links.hpp"
#include "step.hpp"
#include "trainer_fixture.hpp"

namespace rungs::training {
namespace {

/// One rank without a Trainer around it.
struct RankStep {
  RankStep(bootstrap::Group& its_group, Gradients gradients)
      : group(its_group),
        device(gpu::Device::open(group.rank() % gpu::Device::count())),
        stream(device),
        links(group, device, {.gradients = gradients}, tiny_model(), train()),
        step(tiny_model(), train(), small_corpus(), device, stream, &links),
        hold(device) {
    links.seal();
  }
  static TrainConfig train() {
    TrainConfig result = tiny_training();
    result.batch = 4;
    return result;
  }
  void enqueue() const { step.enqueue(step.queue(stream)); }
  /// Enqueues while every rank's stream is held; then lets them go. @return kernels that ran
  std::uint64_t run_held(const std::function<void()>& enqueue_all) {
    links.synchronize(stream);
    const gpu::Counters before = gpu::counters(device);
    hold.start(stream);
    enqueue_all();
    EXPECT_FALSE(hold.gave_up()) << "enqueueing a step has waited for the device";
    group.barrier();  // every rank has enqueued all of its step, and none has begun
    hold.release();
    links.synchronize(stream);
    EXPECT_FALSE(hold.gave_up());
    return (gpu::counters(device) - before).launches - 1;
  }

  bootstrap::Group& group;
  gpu::Device device;
  gpu::Stream stream;
  RankLinks links;
  TrainingStep step;
  Hold hold;
};

void expect_no_host(bootstrap::Group& group, Gradients gradients) {
  RankStep rank(group, gradients);
  rank.enqueue();  // what is done once is done
  rank.links.synchronize(rank.stream);
  group.barrier();
  std::optional<gpu::Graph> graph;
  graph.emplace(gpu::Graph::capture(rank.stream, [&] { rank.enqueue(); }));
  group.barrier();
  const std::uint64_t eager = rank.run_held([&] { rank.enqueue(); });
  EXPECT_GT(graph->node_count(), 50u);
  const auto sent = [&] { return rank.links.context().wire().packets_sent; };
  const std::uint64_t sent_before = sent();
  for (std::uint64_t replay = 1; replay <= 3; ++replay) {
    const std::uint64_t replayed = rank.run_held([&] { graph->replay(rank.stream); });
    // Ranks that share a GPU are counted together.
    if (RUNGS_GPU_CUDA == 0 || gpu::Device::count() > 1) {
      EXPECT_EQ(replayed, eager);
    }
    EXPECT_EQ(rank.step.report().step, 2 + replay);
    EXPECT_EQ(rank.step.report().finite, 1u);
  }
  EXPECT_GT(sent(), sent_before) << "nodes did not talk through their HCAs";
  group.barrier();
}

// A step that synchronises, copies something back to decide on it, or has a host function in it,
// cannot be enqueued whole while its stream is held.
TEST(RanksStep, NothingOfItWaitsForTheHost) {
  for (const Gradients gradients : {Gradients::kAfterBackward, Gradients::kOverlapped}) {
    EXPECT_EQ(in_threads(2, 2, [&](bootstrap::Group& group) { expect_no_host(group, gradients); }),
              "");
  }
}

TEST(GradientBuckets, AreFilledInOrderDisjointAndAllDenseParameters) {
  const ParameterLayout layout(tiny_model(), 1, 2);
  const auto buckets = gradient_buckets(layout, 8);
  ASSERT_EQ(buckets.size(), static_cast<std::size_t>(tiny_model().layers) + 2);
  EXPECT_EQ(buckets.front(), layout.head_range());
  EXPECT_EQ(buckets[1], layout.dense(1));
  EXPECT_EQ(buckets[2], layout.dense(0));
  EXPECT_EQ(buckets.back().begin + buckets.back().count, layout.count() + 8);
  std::int64_t dense = 0;
  for (const Range& bucket : buckets) dense += bucket.count;
  EXPECT_EQ(dense - 8, layout.count() - layout.experts(0).count - layout.experts(1).count);
  for (const Range& bucket : buckets) {
    EXPECT_GE(largest(buckets), static_cast<std::size_t>(bucket.count));
  }
  EXPECT_EQ(largest(buckets), static_cast<std::size_t>(buckets.back().count));  // of this model
}

}  // namespace
}  // namespace rungs::training
