#pragma once
/// @file all_reduce.hpp

#include <rungs/ladder/operation.hpp>

namespace rungs::symmetric {

/// All-reduce of small buffers: through a root, around the ring, around it over LL, in one shot.
ladder::Operation small_all_reduce_operation();

}  // namespace rungs::symmetric
