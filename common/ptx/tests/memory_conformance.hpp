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

// cluster_kernels_sm90.cu
constexpr unsigned kIndexWords = 16;
/// A grid of 4 x 4 x 2 in clusters of 2 x 2 x 2 reports its indices. out [32][kIndexWords]
void launch_cluster_indices(StreamHandle stream, std::uint32_t* out);
/// Blocks of a cluster of 4 write into and read from their neighbours. out [4][64]
void launch_cluster_words(StreamHandle stream, std::uint32_t* out);
/// A message from block to block around the ring of 4, `rounds` times, with release and acquire at
/// cluster scope. out [4]
void launch_cluster_flags(StreamHandle stream, std::uint32_t* out, std::uint32_t rounds);
/// The barrier's forms; threads of one block end early. out [2][64]
void launch_cluster_barriers(StreamHandle stream, std::uint32_t* out);
/// st.async of every size from block 0 to block 1. out [2][96]
void launch_store_async(StreamHandle stream, std::uint32_t* out);
/// red.async of every operation from the 32 threads of each of 3 blocks to block 0. out [16]
void launch_reduce_async(StreamHandle stream, std::uint32_t* out);
/// Two warpgroups exchange registers twice. out [384]
void launch_register_rounds(StreamHandle stream, std::uint32_t* out);

// dependent_kernels_sm90.cu
/// A chain of `count` kernels, each launched to overlap the one before: kernel i adds i to all
/// `words` after it has waited, and then multiplies by 3.
void launch_dependent_chain(StreamHandle stream, std::uint32_t* data, unsigned words,
                            unsigned count);
/// A kernel that waits for the host to set `gate`, releases its dependents and then writes `data`, and one that copies `data`
/// to `out`, with or without waiting.
void launch_dependent_copy(StreamHandle stream, const std::uint32_t* gate, std::uint32_t* data,
                           std::uint32_t* out, unsigned words, bool waits);

}  // namespace rungs::ptx::test
