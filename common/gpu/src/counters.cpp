#include <rungs/gpu/counters.hpp>

namespace rungs::gpu {
namespace {

std::optional<std::uint64_t> minus(const std::optional<std::uint64_t>& after,
                                   const std::optional<std::uint64_t>& before) {
  if (!after || !before) return std::nullopt;
  return *after - *before;
}

}  // namespace

Counters operator-(const Counters& after, const Counters& before) {
  return {after.launches - before.launches, minus(after.async_bytes, before.async_bytes),
          minus(after.mma_flops, before.mma_flops), minus(after.barriers, before.barriers)};
}

}  // namespace rungs::gpu
