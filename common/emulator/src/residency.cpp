#include "residency.hpp"

#include <algorithm>

namespace rungs::emulator {
namespace {

// Registers are not modelled. A block's shared memory costs 1 KB more than it asks for, as on
// Hopper.
Slot shape_of(const gpu::LaunchConfig& config) {
  Slot slot;
  slot.threads = (static_cast<unsigned>(config.block.count()) + 31) / 32 * 32;
  slot.shared_bytes = config.shared_bytes + 1024;
  return slot;
}

}  // namespace

Residency::Residency(int sm_count) : sms_(static_cast<std::size_t>(sm_count)) {}

bool Residency::reserve(const gpu::LaunchConfig& config, std::uint64_t count,
                        std::vector<Slot>* slots) {
  Slot slot = shape_of(config);
  const std::size_t before = slots->size();
  for (std::uint64_t i = 0; i < count; i++) {
    // The SM with most free threads, as the hardware spreads blocks.
    Free* best = nullptr;
    for (Free& sm : sms_) {
      if (sm.blocks == 0 || sm.threads < slot.threads || sm.shared_bytes < slot.shared_bytes)
        continue;
      if (best == nullptr || sm.threads > best->threads) best = &sm;
    }
    if (best == nullptr) {
      release({slots->begin() + static_cast<std::ptrdiff_t>(before), slots->end()});
      slots->resize(before);
      return false;
    }
    best->blocks--;
    best->threads -= slot.threads;
    best->shared_bytes -= slot.shared_bytes;
    slot.sm = static_cast<int>(best - sms_.data());
    slots->push_back(slot);
  }
  return true;
}

void Residency::release(const std::vector<Slot>& slots) {
  for (const Slot& slot : slots) {
    Free& sm = sms_[static_cast<std::size_t>(slot.sm)];
    sm.blocks++;
    sm.threads += slot.threads;
    sm.shared_bytes += slot.shared_bytes;
  }
}

std::uint64_t Residency::capacity(const gpu::LaunchConfig& config) const {
  const Slot slot = shape_of(config);
  const unsigned per_sm =
      std::min({kBlocksPerSm, kThreadsPerSm / slot.threads, kSharedPerSm / slot.shared_bytes});
  return std::uint64_t{per_sm} * sms_.size();
}

}  // namespace rungs::emulator
