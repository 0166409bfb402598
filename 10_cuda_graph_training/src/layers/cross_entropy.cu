// Softmax cross-entropy and its VJP, a thread a row.
//
// What:   loss = log Σ exp(z) − z[target]; d_logits = (softmax(z) − onehot(target)) / rows of
//         all ranks.
// Layout: logits fp32 row-major; d_logits bf16, because the next to read it are two GEMMs.
// Cost:   4·classes bytes read (three times, twice from cache), 2·classes written, 2·classes
//         exponentials a row.

#include "layers/cross_entropy.hpp"

#include <rungs/gpu/lanes_device.hpp>

#include <cmath>

namespace rungs::training::layers {
namespace {

RUNGS_KERNEL(gpu::kRowThreads) cross_entropy_kernel(CrossEntropy a) {
  const float inverse_rows = 1.0f / static_cast<float>(a.mean_rows);
  for (int row = gpu::first_index(); row < a.rows; row += gpu::index_step()) {
    const float* z = a.logits + static_cast<std::int64_t>(row) * a.classes;
    const int target = a.targets[row];
    // 1. Subtract the largest, so that no exponential overflows. A NaN must reach the loss: fmaxf
    // drops it, the
    //    sum below does not.
    float largest = z[0];
    for (int c = 1; c < a.classes; ++c) largest = z[c] > largest ? z[c] : largest;
    gpu::LaneSums sum;
    for (int c = 0; c < a.classes; c += gpu::kLanes)
      for (int l = 0; l < gpu::kLanes; ++l) sum.lane[l] += expf(z[c + l] - largest);
    const float total = sum.total();
    a.loss[row] = logf(total) + largest - z[target];
    if (a.d_logits == nullptr) continue;
    // 2. Probabilities minus the truth.
    bf16* d = a.d_logits + static_cast<std::int64_t>(row) * a.classes;
    const float inverse = inverse_rows / total;
    for (int c = 0; c < a.classes; ++c) {
      const float probability = expf(z[c] - largest) * inverse;
      d[c] = to_bf16(c == target ? probability - inverse_rows : probability);
    }
  }
}

}  // namespace

void cross_entropy(const CrossEntropy& args, const gpu::Queue& queue) {
  gpu::launch("cross_entropy", gpu::row_grid(queue, args.rows), queue.stream, cross_entropy_kernel,
              args);
}

}  // namespace rungs::training::layers
