#pragma once
/// @file all_reduce_spec.hpp
/// The operation "all-reduce of these sizes" without its ladder: for the catalogs of stages above.

#include "problem.hpp"

#include <rungs/ladder/build.hpp>

#include <cstddef>
#include <span>
#include <string>

namespace rungs::collectives {

struct AllReduceSize {
  const char* name;
  std::size_t count;
  DType dtype;
  Op op;
  bool quick;
  bool gpu_only;
};

/// @param steps of the ladder's best rung, for the cost model
ladder::OperationSpec<CollectiveArgs> all_reduce_spec(std::string stage, std::string name,
                                                      std::span<const AllReduceSize> sizes,
                                                      int steps);

}  // namespace rungs::collectives
