#include "one_launch.hpp"

#include <rungs/core/error.hpp>

#include <cstring>
#include <memory>

namespace rungs::collectives {
namespace {

// What the communicator launches for this call.
KernelArgs noted_arguments(Rank& rank, const Case& c) {
  const Operands operands = prepare(rank, c);
  enqueue(rank, c, operands);
  rank.communicator.synchronize(rank.stream);
  KernelArgs args{};
  gpu::copy_async(&args, operands.recv, sizeof(args), rank.stream);
  rank.stream.synchronize();
  RUNGS_ASSERT(args.recv == operands.recv && args.what == c.what,
               "the noting kernel left something else");
  return args;
}

}  // namespace

void run_in_one_launch(Rank& rank, const Case& c, LaunchAll launch) {
  const std::vector<KernelArgs> all = rank.group.all_gather(noted_arguments(rank, c));
  const Operands operands = prepare(rank, c);
  // The launch is on rank 0's stream alone: what this rank's stream filled must have landed.
  rank.stream.synchronize();
  rank.group.barrier();
  if (rank.group.rank() == 0) {
    gpu::Buffer<KernelArgs> on_device(rank.device, all.size());
    on_device.upload(all, rank.stream);
    launch(on_device.data(), static_cast<unsigned>(all.size()),
           static_cast<unsigned>(all[0].channels), rank.stream);
    rank.communicator.synchronize(rank.stream);
  }
  rank.group.barrier();
  if (const auto error = rank.communicator.async_error()) rank.note(error->text);
  compare(rank, c, operands);
}

}  // namespace rungs::collectives
