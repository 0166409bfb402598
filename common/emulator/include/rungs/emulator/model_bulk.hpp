#pragma once
/// @file model_bulk.hpp
/// Models of the bulk copies: cp.async.bulk, cp.reduce.async.bulk, their tensor forms and bulk
/// groups. Every function is called from inside a kernel; a misuse ends the launch with a report.
///
/// What a copy does, and when: a copy into shared memory poisons its destination at once and reads
/// its source when it lands. A copy out of shared memory checks at once that its source is written,
/// landed and fenced; it reads it as late as wait_group.read allows, and reports if it has changed
/// meanwhile. A store's destination in global memory is poisoned until it is written, as late as
/// wait_group allows.
///
/// Reported as not modelled: boxes narrower than their swizzle's span or, swizzled, no multiple of
/// 128 bytes; stores that start below 0 or have element strides; f32_ftz and tf32 elements.
/// Interleaved and im2col maps cannot be made. Not seen: fences for tensor maps and for global
/// memory that threads wrote before a copy reads it.
///
/// Shared-memory addresses are 32-bit shared::cluster addresses (shared_address(), map_shared()).
/// A cache policy of 0 stands for none.

#include <rungs/emulator/model.hpp>
#include <rungs/gpu/tensor_map.hpp>

#include <cstdint>

namespace rungs::emulator::model {

/// @param at `rank` coordinates, the contiguous dimension first
/// @param cluster_mask blocks of the cluster that receive it; 0: the destination's
void tma_load(std::uint32_t destination, const gpu::TensorMap* map, std::uint32_t barrier,
              const int* at, int rank, std::uint16_t cluster_mask, std::uint64_t policy,
              Location where);
void tma_store(const gpu::TensorMap* map, const int* at, int rank, std::uint32_t source,
               std::uint64_t policy, Location where);
void tma_reduce(const gpu::TensorMap* map, const int* at, int rank, std::uint32_t source,
                gpu::BulkReduction reduction, std::uint64_t policy, Location where);
void tma_prefetch(const gpu::TensorMap* map, const int* at, int rank, std::uint64_t policy,
                  Location where);

void bulk_load(std::uint32_t destination, const void* source, std::uint32_t size_bytes,
               std::uint32_t barrier, std::uint16_t cluster_mask, std::uint64_t policy,
               Location where);
void bulk_store(void* destination, std::uint32_t source, std::uint32_t size_bytes,
                std::uint64_t policy, Location where);
void bulk_reduce(void* destination, std::uint32_t source, std::uint32_t size_bytes,
                 gpu::BulkReduction reduction, gpu::TensorElement element, std::uint64_t policy,
                 Location where);
/// Shared memory of the calling block to that of any block of the cluster.
void bulk_copy_cluster(std::uint32_t destination, std::uint32_t source, std::uint32_t size_bytes,
                       std::uint32_t barrier, Location where);
void bulk_reduce_cluster(std::uint32_t destination, std::uint32_t source, std::uint32_t size_bytes,
                         std::uint32_t barrier, gpu::BulkReduction reduction,
                         gpu::TensorElement element, Location where);
void bulk_prefetch(const void* source, std::uint32_t size_bytes, std::uint64_t policy,
                   Location where);

void bulk_commit(Location where);
/// Waits until at most `pending` of the thread's groups are under way; `read`: until they have read
/// their sources.
void bulk_wait(int pending, bool read, Location where);

/// A value that the cache hints above accept. Nothing is cached here.
std::uint64_t cache_policy(float fraction, Location where);

}  // namespace rungs::emulator::model
