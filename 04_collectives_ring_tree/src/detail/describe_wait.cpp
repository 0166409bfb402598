#include "detail/describe_wait.hpp"

#include <rungs/collectives/kernel_args.hpp>
#include <rungs/core/error.hpp>

namespace rungs::collectives::detail {

std::string describe_wait(const gpu::Fault& fault) {
  std::string text = concat(to_string(waiting_collective(fault)), " (collective ", fault.kernel,
                            " of this communicator): rank ", fault.rank, " waited on channel ",
                            fault.slot, " for ");
  if (awaited(fault) == Awaited::kData) {
    text += concat("rank ", fault.peer, "'s data: step ", fault.expected,
                   " of their link expected, step ", fault.seen, " seen");
  } else {
    text += concat("rank ", fault.peer, " to take what was sent: step ", fault.expected,
                   " of their link expected, step ", fault.seen, " seen");
  }
  return text;
}

}  // namespace rungs::collectives::detail
