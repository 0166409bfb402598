#include "gradient_sums.hpp"

#include <rungs/core/error.hpp>

#include <algorithm>
#include <utility>

namespace rungs::training {

std::vector<Range> gradient_buckets(const ParameterLayout& layout, std::int64_t shares) {
  std::vector<Range> buckets{layout.head_range()};
  for (std::size_t l = layout.layers.size(); l-- > 0;) buckets.push_back(layout.dense(l));
  buckets.push_back(layout.undecayed());
  buckets.back().count += shares;
  return buckets;
}

std::size_t largest(const std::vector<Range>& buckets) {
  const auto found = std::max_element(
      buckets.begin(), buckets.end(),
      [](const Range& left, const Range& right) { return left.count < right.count; });
  return static_cast<std::size_t>(found->count);
}

GradientSums::GradientSums(std::vector<Range> buckets, float* gradients, Gradients when,
                           symmetric::AllReduce& reduce, const gpu::Device& device)
    : buckets_(std::move(buckets)),
      gradients_(gradients),
      when_(when),
      reduce_(reduce),
      side_(device),
      joined_(device, gpu::Timing::kNone) {
  for (std::size_t i = 0; i < buckets_.size(); ++i) forks_.emplace_back(device, gpu::Timing::kNone);
}

GradientSums::~GradientSums() {
  // Joined by finish(), unless an error came between.
  try {
    side_.synchronize();
  } catch (const Error&) {
  }
}

void GradientSums::ready(std::size_t index, const gpu::Queue& queue) {
  // A profile waits for each part: nothing overlaps then.
  if (when_ == Gradients::kAfterBackward || queue.profile != nullptr) return;
  forks_[index].record(queue.stream);
  forks_[index].wait_on(side_);
  sum(index, side_);
}

void GradientSums::finish(const gpu::Queue& queue) {
  if (when_ == Gradients::kOverlapped && queue.profile == nullptr) {
    joined_.record(side_);
    joined_.wait_on(queue.stream);
    return;
  }
  queue.part("sum of gradients", [&] {
    for (std::size_t i = 0; i < buckets_.size(); ++i) sum(i, queue.stream);
  });
}

void GradientSums::sum(std::size_t index, gpu::StreamHandle stream) {
  const Range& bucket = buckets_[index];
  reduce_.sum(gradients_ + bucket.begin, static_cast<std::size_t>(bucket.count), 1.0f, stream);
}

}  // namespace rungs::training
