// The one-shot all-reduce for all ranks in one launch (04's tests/one_launch_device.hpp says why).

#include "one_launch_symmetric.hpp"

#include "detail/one_shot_device.hpp"
#include "detail/one_shot_entries.hpp"

#include "../../04_collectives_ring_tree/tests/one_launch_device.hpp"

namespace rungs::symmetric {
namespace {

RUNGS_KERNEL(collectives::kOneLaunchThreads, 1)
one_shot_of_all_ranks_kernel(const collectives::KernelArgs* ranks) {
  RUNGS_SHARED(detail::Links, links);
  detail::OneShot<float, collectives::Sum>(ranks[blockIdx.y], links).run();
}

}  // namespace

void launch_one_shot(const collectives::KernelArgs* ranks, unsigned count, unsigned channels,
                     gpu::StreamHandle stream) {
  collectives::launch_all_ranks(&one_shot_of_all_ranks_kernel, ranks, count, channels, stream);
}

}  // namespace rungs::symmetric
