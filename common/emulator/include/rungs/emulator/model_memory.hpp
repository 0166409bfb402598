#pragma once
/// @file model_memory.hpp
/// Models of what moves single words and of what orders them: mbarriers in full, shared memory of
/// the cluster's other blocks, register allocation, dependent launches. See model.hpp.

#include <rungs/emulator/model.hpp>

namespace rungs::emulator::model {

// --- mbarriers

/// What one instruction does to an mbarrier, in this order: bytes, arrivals, end of the phase.
struct MbarrierUpdate {
  std::uint32_t address = 0;  ///< shared::cluster
  std::uint32_t arrivals = 0;
  std::uint32_t expect_bytes = 0;
  std::uint32_t complete_bytes = 0;
  bool drop = false;         ///< the arrivals are missing from the count of later phases
  bool no_complete = false;  ///< a report if it ends the phase
  bool relaxed = false;      ///< releases nothing
};
/// Returns the token of the phase before it. Only tokens of no_complete know a pending count.
std::uint64_t mbarrier_update(const MbarrierUpdate& update, const char* instruction,
                              Location where);
void mbarrier_inval(std::uint32_t address, Location where);
std::uint32_t mbarrier_pending_count(std::uint64_t token, Location where);
/// mbarrier_test() by token: of another barrier, or of a phase before the last one, is a report.
bool mbarrier_test_token(std::uint32_t address, std::uint64_t token, bool block, Location where);

}  // namespace rungs::emulator::model
