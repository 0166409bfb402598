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
/// A kernel that waits for the host to set `gate`, releases its dependents and then writes `data`,
/// and one that copies `data` to `out`, with or without waiting.
void launch_dependent_copy(StreamHandle stream, const std::uint32_t* gate, std::uint32_t* data,
                           std::uint32_t* out, unsigned words, bool waits);

// orders_kernels_sm90.cu
constexpr unsigned kOrderRows = 26;
/// One thread copies words with every load and store. `words` [kOrderRows], out [kOrderRows]
void launch_orders(StreamHandle stream, const std::uint64_t* words, std::uint64_t* out);
/// 16-byte lines copied with every hint. out [kHintRows * 4] words
constexpr unsigned kHintRows = 14;
void launch_hints(StreamHandle stream, const std::uint32_t* words /* [kHintRows * 4] */,
                  std::uint32_t* out);
/// Dekker's handshake in shared memory of one block (`scope` 0), of a cluster of two (1), in global
/// memory of two blocks (2, 3): both store 1, fence (sc), load the other's flag. out [rounds]: the
/// sum of both loads, never 0.
void launch_handshake(StreamHandle stream, std::uint32_t* flags /* [2 * rounds] */,
                      std::uint32_t* out, std::uint32_t rounds, int scope);
/// A message from warp 0 to warp 1 with cta or cluster scope, as launch_message(). `how` 0 to 3.
void launch_block_message(StreamHandle stream, std::uint32_t* out /* [32 * rounds] */,
                          std::uint32_t rounds, int how);
/// Block 0 stores pairs (n, ~n), block 1 counts pairs that do not match in out[0].
void launch_pairs(StreamHandle stream, std::uint64_t* pair /* [2] */, std::uint32_t* out,
                  std::uint32_t rounds);

// atomics_kernels_sm90.cu
struct alignas(16) AtomicTable {
  // [operation][order]: add min max and or xor inc dec exch cas, each relaxed ... acq_rel
  std::uint32_t u32[10][4];
  std::int32_t i32[10][4];
  std::uint64_t u64[10][4];
  std::int64_t i64[10][4];
  std::uint32_t reds[8][4];  // by scope
  std::uint64_t wide[2][4];  // four values of 16 bytes
  float f32[12];
  double f64[4];
};
/// 256 threads of 4 blocks run every operation with every order and scope.
void launch_atomic_table(StreamHandle stream, AtomicTable* table);
/// One thread adds pairs of floats and of 16-bit pairs: sums[i] = atom(cells[i], addends[i]).
struct SumCase {
  std::uint32_t cell, addend, before;
};
void launch_sums(StreamHandle stream, SumCase* f32, SumCase* f16, SumCase* bf16, unsigned count);
/// The same in shared memory for f32, where subnormals stay.
void launch_shared_sums(StreamHandle stream, SumCase* f32, unsigned count);

// cluster_atomic_kernels_sm90.cu
constexpr unsigned kClusterCells = 16;
/// 32 threads of each of 4 blocks update cells of block 0, by address and by generic pointer.
/// out [2][kClusterCells], then 128 tickets
void launch_cluster_atomics(StreamHandle stream, std::uint64_t* out);
/// A tile of ones, then of twos, squared by wgmma after each of the wider proxy fences. out
/// [2][128]
void launch_proxy_fences(StreamHandle stream, float* out);

}  // namespace rungs::ptx::test
