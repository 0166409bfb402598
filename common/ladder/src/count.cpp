#include <rungs/ladder/operation.hpp>

namespace rungs::ladder {

gpu::Counters count_one_run(Trial& trial, const gpu::Device& device) {
  device.synchronize();
  const gpu::Counters before = gpu::counters(device);
  trial.time_once();
  device.synchronize();
  return gpu::counters(device) - before;
}

}  // namespace rungs::ladder
