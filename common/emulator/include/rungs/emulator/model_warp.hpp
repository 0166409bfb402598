#pragma once
/// @file model_warp.hpp
/// Models of the instructions that a whole warp executes together (ldmatrix, stmatrix, mma.sync,
/// redux, match) and of cp.async. As in model.hpp: PTX section, callers and memory order stand at
/// the wrappers.

#include <rungs/emulator/model.hpp>

namespace rungs::emulator::model {

/// ldmatrix.m8n8.b16 of `count` matrices. Lane 8 i + r passes the address of row r of matrix i;
/// other lanes' addresses are not looked at. Reports rows that are misaligned, outside the block's
/// shared memory, or still being written by a copy, and lanes of the warp that are elsewhere.
void ldmatrix(std::uint32_t* d, int count, bool transpose, const void* row, Location where);
/// stmatrix.m8n8.b16, the mirror image.
void stmatrix(void* row, const std::uint32_t* values, int count, bool transpose, Location where);

/// Element types of mma.sync.
enum class MmaType : std::uint8_t { kF16, kBf16, kTf32, kE4M3, kE5M2, kS8, kU8, kF32, kS32 };

/// mma.sync m16n8kK: which one.
struct MmaShape {
  int k = 0;
  MmaType a{};
  MmaType b{};
  MmaType d{};  ///< and C: kF16 (two to a register), kF32 or kS32
  bool saturate = false;

  bool operator==(const MmaShape&) const = default;
};
/// d = a b + c, all of them the calling lane's registers. Floats: products and their sum with c are
/// exact up to a double's rounding, then rounded once to the type of d; a NaN becomes the canonical
/// one. Integers: the exact sum, wrapped or saturated once.
void mma(const MmaShape& shape, std::uint32_t* d, const std::uint32_t* a, const std::uint32_t* b,
         const std::uint32_t* c, Location where);

/// redux.sync on 32 bits.
enum class Redux : std::uint8_t { kAdd, kMinU, kMaxU, kMinS, kMaxS, kAnd, kOr, kXor };
std::uint32_t redux(Redux operation, std::uint32_t mask, std::uint32_t value, Location where);
/// match.any.sync: the lanes of the mask whose value is the caller's.
std::uint32_t match_any(std::uint32_t mask, std::uint64_t value, Location where);
/// match.all.sync: the mask if all values are equal, else 0.
std::uint32_t match_all(std::uint32_t mask, std::uint64_t value, Location where);
/// The lanes of the calling thread's warp that have not ended.
std::uint32_t active_mask();
/// The calling thread's lane.
std::uint32_t lane_id();

/// Starts cp.async of `size_bytes` (4, 8 or 16), of which the first `source_bytes` are read and the
/// others are zero. The destination is poisoned until it lands, as late as RUNGS_EMULATOR_ASYNC
/// says; a thread's copies land in any order.
void cp_async(void* destination, const void* source, std::uint32_t size_bytes,
              std::uint32_t source_bytes, Location where);
void cp_async_commit_group();
/// Waits for the calling thread's groups but the youngest `pending`.
void cp_async_wait_group(std::uint32_t pending, Location where);
/// Waits for all its copies, in a group or not.
void cp_async_wait_all(Location where);
/// One arrival when the calling thread's copies so far have landed. Unless `counted` (.noinc), the
/// phase's pending count is raised by one first.
void cp_async_mbarrier_arrive(std::uint32_t barrier, bool counted, Location where);

}  // namespace rungs::emulator::model
