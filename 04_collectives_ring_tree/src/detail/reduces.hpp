#pragma once
/// @file reduces.hpp

#include <rungs/collectives/kernel_args.hpp>

namespace rungs::collectives::detail {

/// Whether the operator matters.
inline bool reduces(Collective what) {
  return what == Collective::kAllReduce || what == Collective::kReduceScatter;
}

/// Whether the buffers hold a part of every rank.
inline bool has_parts(Collective what) {
  return what != Collective::kAllReduce && what != Collective::kBroadcast;
}

}  // namespace rungs::collectives::detail
