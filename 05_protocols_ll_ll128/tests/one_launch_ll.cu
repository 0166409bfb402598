// The ring over LL for all ranks in one launch (04's tests/one_launch_device.hpp says why).

#include "one_launch_ll.hpp"

#include <rungs/protocols/ll_device.hpp>

#include "../../04_collectives_ring_tree/tests/one_launch_device.hpp"

namespace rungs::protocols {

void launch_ring_ll(const collectives::KernelArgs* ranks, unsigned count, unsigned channels,
                    gpu::StreamHandle stream) {
  collectives::launch_all_ranks(&collectives::ring_of_all_ranks_kernel<Ll>, ranks, count, channels,
                                stream);
}

}  // namespace rungs::protocols
