// All-reduce in one step: every rank gives its values to every other, and each adds up all of them.
//
// New against the ring over LL: one hop instead of 2(n - 1). The price is that a rank sends its
// whole buffer n - 1 times instead of twice, so it is for small ones.
// Layout: slots of the links as everywhere in stage 04, filled with stage 05's lines (8 bytes of
// data, 8 of flags). Line i of a step carries the same elements from every rank, and one thread
// handles it on both sides: a value is given away before it may be overwritten (in place).
// Cost: 1 step, 2 S (n - 1) bytes sent by a rank. Why lines, and not data with one counter behind
// it: for 8 bytes a counter costs a fence, two barriers and a second flight, lines cost 8 bytes.
// Sum: in the order of ranks, on every rank alike: the same bits everywhere, in every run.
// Credit: among steps of this kernel it is always there, because whoever sends step s has taken the
// peer's s - 1. It is waited for because other kernels use the links between two calls, and a
// broadcast's root runs ahead of its peers.
//
//     flag              writer                             reader                          resets
//     a line's flags    sender's thread of the line        receiver's thread of the line   wiping
//     head              receiver's thread of the peer      sender's thread of the peer     nobody
//     failed[0] shared  a thread that got no credit        all, after barrier 1            nobody
//     failed[1] shared  a thread that got no line          all, after barrier 2            nobody
//
// Sources: NCCL's AllReduce_AGxLL_R (docs/sources.md); wiping: ll_device.hpp.

#include "detail/one_shot_device.hpp"
#include "detail/one_shot_entries.hpp"

#include <vector>

namespace rungs::symmetric::detail {
namespace {

using collectives::Kernel;
using collectives::KernelEntry;

template <class T, class O>
RUNGS_KERNEL(kOneShotThreads, 1)
one_shot_all_reduce_kernel(KernelArgs args) {
  RUNGS_SHARED(Links, links);
  OneShot<T, O>(args, links).run();
}

/// The kernels above, by name.
struct OneShotKernels {
  template <class T, class O>
  static Kernel all_reduce() {
    return &one_shot_all_reduce_kernel<T, O>;
  }
};

}  // namespace

std::vector<KernelEntry> one_shot_entries() {
  return collectives::kernel_entries<OneShotKernels, collectives::Sum, collectives::Max,
                                     collectives::Avg>(
      {.algorithm = kOneShot,
       .protocol = collectives::ProtocolId::kSymmetric,
       .threads = kOneShotThreads,
       .slot_bytes = kOneShotSlotBytes,
       .payload_bytes = kOneShotSlotBytes / 2,
       .illegal = &one_shot_illegal});
}

}  // namespace rungs::symmetric::detail
