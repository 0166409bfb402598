#pragma once
// Sums of the dense gradients over all ranks, a bucket at a time.
//
// A bucket is a range of the gradient array whose elements are all there at one point of the
// backward pass:
//
//     backward    head ▏layer 1 ▏layer 0 ▏embeddings ▏              ▏norm, AdamW
//     kAfterBackward                                 ▏0 ▏1 ▏2 ▏3 ▏  on the same stream
//     kOverlapped      ▏bucket 0 ▏bucket 1 ▏bucket 2 ▏bucket 3 ▏    on a second stream
//
// Both sum the same buckets, in the same order: an element's sum depends on where it lies in its
// bucket, so other buckets would give other last bits.

#include <rungs/gpu/queue.hpp>
#include <rungs/gpu/stream.hpp>
#include <rungs/symmetric/all_reduce.hpp>
#include <rungs/training/trainer.hpp>

#include <cstddef>
#include <vector>

#include "model/parameters.hpp"

namespace rungs::training {

/// In the order in which the backward pass fills them: the head; the dense matrices of each layer,
/// the last layer first; all that does not decay, and `shares` floats behind the parameters.
std::vector<Range> gradient_buckets(const ParameterLayout& layout, std::int64_t shares);
/// Elements of the largest.
std::size_t largest(const std::vector<Range>& buckets);

class GradientSums {
 public:
  /// @param reduce must outlive this
  GradientSums(std::vector<Range> buckets, float* gradients, Gradients when,
               symmetric::AllReduce& reduce, const gpu::Device& device);
  ~GradientSums();
  GradientSums(const GradientSums&) = delete;
  GradientSums& operator=(const GradientSums&) = delete;

  /// Bucket `index` is written by what `queue` has so far. Buckets come in order.
  void ready(std::size_t index, const gpu::Queue& queue);
  /// What is enqueued after this sees the sums of all buckets.
  void finish(const gpu::Queue& queue);
  [[nodiscard]] std::size_t buckets() const noexcept { return buckets_.size(); }

 private:
  void sum(std::size_t index, gpu::StreamHandle stream);
  std::vector<Range> buckets_;
  float* gradients_;
  Gradients when_;
  symmetric::AllReduce& reduce_;
  gpu::Stream side_;
  std::vector<gpu::Event> forks_;  // a bucket each
  gpu::Event joined_;
};

}  // namespace rungs::training
