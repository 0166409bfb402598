#pragma once
/// @file prepared.hpp
/// A collective on rank threads, for the catalogs of this stage and of those that bring kernels.

#include <rungs/collectives/kernel_table.hpp>
#include <rungs/ladder/rung.hpp>

#include "problem.hpp"

#include <memory>

namespace rungs::collectives {

/// kCatalogRanks threads with a communicator each. Measures itself: the mean of several calls in a
/// row, on the slowest rank.
/// @param table must outlive the result
std::unique_ptr<ladder::Prepared> prepare_collective(const CollectiveArgs& args, KernelTable table,
                                                     const std::shared_ptr<const Tuner>& tuner);

}  // namespace rungs::collectives
