#pragma once
/// @file all_well.hpp
/// How ranks hear that one of them could not do its part of a collective construction.

#include <rungs/bootstrap/group.hpp>
#include <rungs/core/error.hpp>

#include <string>

namespace rungs::collectives {

/// Collective: throws on every rank if `problem` is not empty on one, naming it.
/// @param code,problem this rank's
void all_well(bootstrap::Group& group, ErrorCode code, const std::string& problem);

}  // namespace rungs::collectives
