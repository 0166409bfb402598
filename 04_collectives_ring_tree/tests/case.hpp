#pragma once
/// @file case.hpp
/// One collective on one set of sizes, run by every rank and compared with an oracle.

#include "world.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace rungs::collectives {

struct Case {
  Collective what = Collective::kAllReduce;
  DType dtype = DType::kF32;
  Op op = Op::kSum;
  std::size_t count = 0;
  int root = 0;
  bool in_place = false;
  std::size_t shift = 0;  ///< elements by which both buffers miss their 256-byte alignment
  /// Small integers: then sums are exact in every dtype, and a lost or doubled term cannot hide in
  /// the rounding bound.
  bool integers = false;
  std::uint64_t seed = 1;
};
std::string to_string(const Case& c);

/// Rank `rank`'s element `index` of the send buffer, a value of the dtype.
double value_of(const Case& c, int rank, std::size_t index);
/// What rank `rank` must receive, in double (i32: exactly), and how far it may be off.
struct Expected {
  std::vector<double> values;
  std::vector<double> bounds;
};
Expected expected(const Case& c, int rank, int ranks);

/// Values of a dtype as bytes, and back.
std::vector<std::byte> encode(DType dtype, const std::vector<double>& values);
std::vector<double> decode(DType dtype, const std::vector<std::byte>& bytes);

/// Where a rank's operands lie, uploaded; outputs and everything around them poisoned.
struct Operands {
  std::byte* send = nullptr;
  std::byte* recv = nullptr;
};
Operands prepare(Rank& rank, const Case& c);
void enqueue(Rank& rank, const Case& c, const Operands& operands);
/// Compares what was received, checks that nothing around it was written and that all ranks got the
/// same bits from an all_reduce; notes what is wrong. Collective.
void compare(Rank& rank, const Case& c, const Operands& operands);
/// prepare, enqueue, synchronize, compare.
void run_case(Rank& rank, const Case& c);

}  // namespace rungs::collectives
