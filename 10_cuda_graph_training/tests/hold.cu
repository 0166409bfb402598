#include "hold.hpp"

#include <rungs/core/deadline.hpp>
#include <rungs/gpu/kernel.hpp>
#include <rungs/gpu/launch.hpp>
#include <rungs/ptx/memory.hpp>
#include <rungs/ptx/sync.hpp>

#include <atomic>

namespace rungs::training {
namespace {

constexpr double kPatienceSeconds = 5;

RUNGS_KERNEL(1)
hold_kernel(const std::uint32_t* released, std::uint32_t* gave_up, std::uint64_t patience_ns) {
  const std::uint64_t begin = ptx::globaltimer_ns();
  while (ptx::ld_relaxed_sys(released) == 0) {
    if (ptx::globaltimer_ns() - begin > patience_ns) {
      ptx::st_relaxed_sys(gave_up, std::uint32_t{1});
      return;
    }
  }
}

}  // namespace

Hold::Hold(const gpu::Device& device) : words_(device, 2, gpu::Space::kHostMapped) {}

void Hold::start(gpu::StreamHandle stream) {
  words_.data()[0] = words_.data()[1] = 0;
  const auto patience_ns = static_cast<std::uint64_t>(kPatienceSeconds * timeout_scale() * 1e9);
  gpu::launch("hold", {.grid = {}, .block = {}}, stream, hold_kernel, words_.data(),
              words_.data() + 1, patience_ns);
}

void Hold::release() { std::atomic_ref<std::uint32_t>(words_.data()[0]).store(1); }

bool Hold::gave_up() const { return std::atomic_ref<std::uint32_t>(words_.data()[1]).load() != 0; }

}  // namespace rungs::training
