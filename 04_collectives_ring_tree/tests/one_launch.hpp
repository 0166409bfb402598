#pragma once
/// @file one_launch.hpp
/// Runs a collective of several real communicators as one kernel launch (one_launch_device.hpp says
/// why). Their table holds a kernel that only notes what it was launched with; rank 0 then launches
/// the real algorithm once for all of them.

#include "case.hpp"

#include <rungs/collectives/kernel_table.hpp>

#include <vector>

namespace rungs::collectives {

/// Launches the algorithm for `count` ranks, whose arguments lie at `ranks` in device memory.
using LaunchAll = void (*)(const KernelArgs* ranks, unsigned count, unsigned channels,
                           gpu::StreamHandle stream);
void launch_ring_simple(const KernelArgs* ranks, unsigned count, unsigned channels,
                        gpu::StreamHandle stream);
void launch_root_simple(const KernelArgs* ranks, unsigned count, unsigned channels,
                        gpu::StreamHandle stream);

/// Of kernels that store their arguments at `recv`, under algorithm "noted".
KernelTable noting_table(ProtocolId protocol, std::size_t slot_bytes);

/// As run_case(), in one launch; the ranks are threads on one device. Collective.
void run_in_one_launch(Rank& rank, const Case& c, LaunchAll launch);

}  // namespace rungs::collectives
