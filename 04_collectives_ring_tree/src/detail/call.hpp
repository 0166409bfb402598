#pragma once
/// @file call.hpp
/// One collective as the caller asked for it, and whether that can be right.

#include <rungs/collectives/kernel_table.hpp>

#include <cstddef>

namespace rungs::collectives::detail {

struct Call {
  Collective what;
  const void* send;
  void* recv;
  std::size_t count;  ///< all_reduce, broadcast: of the buffer; others: of one rank's part
  DType dtype;
  Op op = Op::kSum;
  int root = 0;
};

/// Bytes of the larger buffer of the call.
std::size_t total_bytes(const Call& call, int size);

/// @throws Error kInvalidArgument naming collective, argument, value and rule; kUnsupported, with
///         what the table supports, for a dtype or operator that it has no kernel for
void check_call(const Call& call, int rank, int size, KernelTable table);

}  // namespace rungs::collectives::detail
