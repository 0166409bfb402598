// Choosing a batch on the device.
//
// What:   sequence b of step s starts at a random position, a function of (seed, s, b) alone:
//         Philox, no state.
// New:    an eager loop draws positions on the host and copies tokens to the device in every step;
//         here the text lies in device memory, and a replayed graph finds the next batch by the
//         step counter.
// Cost:   9·batch·context bytes.

#include "data/batch.hpp"

#include <rungs/gpu/lanes_device.hpp>
#include "detail/philox.hpp"

namespace rungs::training::data {
namespace {

RUNGS_KERNEL(gpu::kRowThreads) choose_batch_kernel(BatchArgs a) {
  for (int b = gpu::first_index(); b < a.batch; b += gpu::index_step()) {
    std::int64_t start = 0;
    if (a.state != nullptr) {
      const Philox random =
          philox(a.seed, a.state->step, static_cast<std::uint64_t>(a.first_sequence + b));
      // The last start whose targets still lie in the text is text_bytes - context - 1.
      start = static_cast<std::int64_t>(below(static_cast<std::uint64_t>(a.text_bytes - a.context),
                                              random.word[0], random.word[1]));
    } else {
      start = (a.first_window + b * a.window_stride) % a.windows * a.context;
    }
    for (int t = 0; t < a.context; ++t) {
      a.tokens[b * a.context + t] = a.text[start + t];
      a.targets[b * a.context + t] = a.text[start + t + 1];
    }
  }
}

}  // namespace

void choose_batch(const BatchArgs& args, const gpu::Queue& queue) {
  gpu::launch("choose_batch", gpu::row_grid(queue, args.batch), queue.stream, choose_batch_kernel,
              args);
}

}  // namespace rungs::training::data
