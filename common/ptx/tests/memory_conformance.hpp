#pragma once
/// @file memory_conformance.hpp
/// Kernels of the conformance suite for mbarriers, clusters, memory orders and atomics.

#include "conformance.hpp"

namespace rungs::ptx::test {

// mbarrier_kernels_sm90.cu
constexpr unsigned kTokenWords = 24;
/// One thread drives barriers through every form of arrival; `out` holds what it saw.
void launch_mbarrier_tokens(StreamHandle stream, std::uint32_t* out /* [kTokenWords] */);
/// `threads` arrive once a phase; thread t drops out after phase t / 32. `out` [phases][threads]: a
/// word that every live thread reads after the phase.
void launch_mbarrier_drops(StreamHandle stream, std::uint32_t* out /* [4][128] */);
/// Blocks of a cluster of 2 use each other's barriers. out [2][kRemoteWords]
constexpr unsigned kRemoteWords = 8;
void launch_mbarrier_remote(StreamHandle stream, std::uint32_t* out);

}  // namespace rungs::ptx::test
