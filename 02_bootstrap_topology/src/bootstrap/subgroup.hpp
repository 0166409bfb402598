#pragma once
/// @file subgroup.hpp
/// How some ranks of a group agree to become one of their own.
///
///     member                                  leader: the lowest rank of them
///     its list of members            ──►      compares them all, opens a rendezvous
///                                    ◄──      its id, or what differs
///     joins                                   joins

#include "bootstrap/member.hpp"
#include "bootstrap/rendezvous.hpp"
#include "bootstrap/root_server.hpp"

#include <memory>
#include <vector>

namespace rungs::bootstrap::detail {

/// What a member needs to join; the leader also runs the rendezvous.
struct SubgroupStart {
  std::unique_ptr<RootServer> root;  ///< at the leader; until it has joined
  JoinRequest request;
};

/// Collective among `members`. @throws Error kInvalidArgument for a list that names a rank that
///         there is not, or one twice, or not the caller, or that differs between ranks; kTimeout,
///         kPeerLost
SubgroupStart start_subgroup(Member& member, const std::vector<int>& members,
                             double timeout_seconds);

}  // namespace rungs::bootstrap::detail
