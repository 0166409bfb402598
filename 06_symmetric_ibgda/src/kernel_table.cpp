#include <rungs/symmetric/kernel_table.hpp>

#include <rungs/protocols/kernel_table.hpp>

#include "detail/one_shot_entries.hpp"

#include <array>
#include <vector>

namespace rungs::symmetric {

namespace detail {

// The model of stage 05: start + steps * hop + bytes through one rank's links / bandwidth, with
// LL's start and hop, of which there is one. A rank sends S to each of n - 1 peers and polls as
// much.
// GPU: LL's constants; this kernel has not been timed for its own yet. Emulated: the bandwidth that
// the least of 30 calls of four ranks shows, on a busy machine of two cores: 8 B 77 us (ring over
// LL 128, over Simple 135), 16 KiB on one channel 945 us.
double one_shot_us(const collectives::Question& question, int channels) {
  const int peers = question.surroundings.ranks - 1;
#if RUNGS_GPU_CUDA
  constexpr double kStartUs = 6.7;
  constexpr double kHopUs = 0.7;
  constexpr double kGbPerS = 7;
#else
  constexpr double kStartUs = 10;
  constexpr double kHopUs = 7;
  constexpr double kGbPerS = 0.05;
#endif
  const double bytes = static_cast<double>(question.size_bytes) * peers;
  return kStartUs + kHopUs + bytes / (kGbPerS * 1e3 * channels);
}

}  // namespace detail

collectives::KernelTable kernel_table() {
  static const std::vector<collectives::KernelEntry> table = [] {
    const collectives::KernelTable below = protocols::kernel_table();
    std::vector<collectives::KernelEntry> all(below.begin(), below.end());
    const std::vector<collectives::KernelEntry> one_shot = detail::one_shot_entries();
    all.insert(all.end(), one_shot.begin(), one_shot.end());
    return all;
  }();
  return table;
}

std::shared_ptr<const collectives::Tuner> tuner() {
  constexpr std::array kAbove{protocols::KernelModel{
      detail::kOneShot, collectives::ProtocolId::kSymmetric, &detail::one_shot_us}};
  return protocols::tuner(kAbove);
}

}  // namespace rungs::symmetric
