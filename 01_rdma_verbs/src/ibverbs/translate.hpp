#pragma once
// Requests and statuses in libibverbs' words.

#include <rungs/verbs/types.hpp>

#include <infiniband/verbs.h>

#include <span>

namespace rungs::verbs::ibverbs {

bool is_atomic(Opcode opcode) noexcept;
Status to_status(ibv_wc_status status) noexcept;
// `segments` has one entry for each of the request's, and must live until the request is posted.
ibv_send_wr to_ibv(const SendRequest& request, std::span<ibv_sge> segments) noexcept;

}  // namespace rungs::verbs::ibverbs
