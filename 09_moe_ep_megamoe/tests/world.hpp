#pragma once
// The layer on ranks that are threads, and what all of them left.

#include <rungs/bootstrap/group.hpp>
#include <rungs/testing/ranks.hpp>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "catalog/rank_layer.hpp"
#include "catalog/reference_layer.hpp"

namespace rungs::moe {

/// How GoogleTest calls a case.
inline void PrintTo(const MoeCase& spec, std::ostream* out) { *out << spec.name; }

/// Makes a RankLayer in each of the case's ranks and calls body with it. Empty if all ended well.
/// @param options host_id: ranks r with equal r / `ranks_a_host` share a host; 0: all do
std::string in_ranks(const MoeInputs& inputs, const RankOptions& options,
                     const std::function<void(int rank, RankLayer&)>& body, int ranks_a_host = 0);

/// Forward and VJP, once: every rank's outputs.
std::vector<RankOutputs> run_layer(const MoeInputs& inputs, const RankOptions& options,
                                   int ranks_a_host = 0);

/// What the first element outside its bound is, in words; empty if all lie within.
std::string judge(const std::vector<RankOutputs>& got, const LayerReference& want);

/// The same tokens, in the same order, and all experts on one rank.
MoeInputs on_one_rank(const MoeInputs& inputs);
/// A tensor of all ranks, one after the other.
std::vector<float> joined(const std::vector<RankOutputs>& ranks,
                          std::vector<float> RankOutputs::*tensor);

}  // namespace rungs::moe
