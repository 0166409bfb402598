#include <rungs/bench/machine.hpp>

#include <rungs/core/error.hpp>
#include <rungs/core/text.hpp>
#include <rungs/gpu/buffer.hpp>
#include <rungs/gpu/stream.hpp>
#include <rungs/ladder/results.hpp>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>

namespace rungs::bench {
namespace {

constexpr int kTries = 5;

std::size_t host_memory_bytes() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_bytes = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && page_bytes > 0
             ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(page_bytes)
             : 0;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

MachineFacts machine_facts() {
  MachineFacts facts;
  facts.cpu = ladder::cpu_name();
  facts.cores = ladder::core_count();
  facts.memory_bytes = host_memory_bytes();
  try {
    if (gpu::Device::count() > 0) {
      facts.gpu = gpu::Device::open(0).info();
    } else {
      facts.no_gpu_reason = "this machine has no GPU that CUDA can use";
    }
  } catch (const Error& error) {
    facts.no_gpu_reason = error.message();
  }
  return facts;
}

std::vector<std::string> describe(const MachineFacts& facts) {
  std::vector<std::string> lines;
  lines.push_back(concat("CPU   ", facts.cpu, ", ", facts.cores,
                         facts.cores == 1 ? " core, " : " cores, ",
                         format_quantity(static_cast<double>(facts.memory_bytes), "B")));
  if (!facts.gpu) {
    lines.push_back(concat("GPU   none: ", facts.no_gpu_reason));
    return lines;
  }
  const gpu::DeviceInfo& gpu = *facts.gpu;
  std::string line = concat("GPU   ", gpu.name, ", ", gpu.sm_count, " SMs, compute capability ",
                            gpu.compute_major, '.', gpu.compute_minor);
  if (gpu.memory_bytes > 0)
    line += ", " + format_quantity(static_cast<double>(gpu.memory_bytes), "B");
  if (gpu.l2_bytes > 0) line += ", L2 " + format_quantity(static_cast<double>(gpu.l2_bytes), "B");
  lines.push_back(std::move(line));
  return lines;
}

double measure_host_copy() {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  const auto from = std::make_unique<unsigned char[]>(kBytes);
  const auto to = std::make_unique<unsigned char[]>(kBytes);
  double best = 0;
  for (int i = 0; i < kTries; ++i) {
    from[static_cast<std::size_t>(i)] =
        static_cast<unsigned char>(i + 1);  // or the copy could be left out
    const auto start = std::chrono::steady_clock::now();
    std::memcpy(to.get(), from.get(), kBytes);
    best = std::max(best, 2.0 * static_cast<double>(kBytes) / seconds_since(start));
    RUNGS_ASSERT(to[static_cast<std::size_t>(i)] == i + 1, "memcpy did not copy");
  }
  return best;
}

double measure_device_copy(const gpu::Device& device) {
  const bool emulated = device.info().emulated;
  const std::size_t bytes = std::size_t{emulated ? 64u : 1024u} << 20;
  const gpu::Buffer<unsigned char> from(device, bytes);
  const gpu::Buffer<unsigned char> to(device, bytes);
  const gpu::Stream stream(device);
  gpu::Event begin(device);
  gpu::Event end(device);
  gpu::fill_async(from.data(), 0x5a, bytes, stream);
  double best = 0;
  for (int i = 0; i <= kTries; ++i) {  // the first is warm-up
    begin.record(stream);
    gpu::copy_async(to.data(), from.data(), bytes, stream);
    end.record(stream);
    end.synchronize();
    if (i > 0) best = std::max(best, 2.0 * static_cast<double>(bytes) / end.seconds_since(begin));
  }
  return best;
}

}  // namespace rungs::bench
