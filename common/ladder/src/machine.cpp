#include <rungs/core/error.hpp>
#include <rungs/core/file.hpp>
#include <rungs/gpu/device.hpp>
#include <rungs/ladder/results.hpp>

#include <sched.h>

#include <string_view>
#include <thread>

namespace rungs::ladder {
namespace {

void erase_all(std::string& text, std::string_view piece) {
  for (std::size_t at = text.find(piece); at != std::string::npos; at = text.find(piece))
    text.erase(at, piece.size());
}

// The first "model name" line (x86), or nothing.
std::string model_name() {
  std::string text;
  try {
    text = file::read_text("/proc/cpuinfo");
  } catch (const Error&) {
    return {};  // no /proc: the architecture's name has to do
  }
  const std::size_t key = text.find("model name");
  if (key == std::string::npos) return {};
  const std::size_t colon = text.find(':', key);
  const std::size_t end = text.find('\n', key);
  if (colon == std::string::npos || colon > end) return {};
  const std::size_t begin = text.find_first_not_of(" \t", colon + 1);
  return begin == std::string::npos ? std::string() : text.substr(begin, end - begin);
}

std::string read_cpu_name() {
  std::string name = model_name();
  for (const std::string_view noise : {"(R)", "(TM)", "(tm)", " CPU", " Processor"})
    erase_all(name, noise);
  name = name.substr(0, name.find(" @"));
  if (const std::size_t cores = name.find("-Core"); cores != std::string::npos) {
    name = name.substr(0, name.rfind(' ', cores));  // "AMD EPYC 7763 64-Core"
  }
  if (!name.empty()) return name;
#if defined(__aarch64__)
  return "Arm CPU";
#else
  return "unknown CPU";
#endif
}

std::string read_machine_name() {
  const std::string cpu =
      concat(cpu_name(), ", ", core_count(), core_count() == 1 ? " core" : " cores");
  try {
    if (gpu::Device::count() == 0) return concat("no GPU, ", cpu);
    const gpu::Device device = gpu::Device::open(0);
    const gpu::DeviceInfo& info = device.info();
    return info.emulated ? concat("emulated Hopper on ", cpu) : info.name;
  } catch (const Error&) {
    return concat("no GPU, ", cpu);
  }
}

}  // namespace

std::string cpu_name() {
  static const std::string name = read_cpu_name();
  return name;
}

int core_count() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) == 0) return CPU_COUNT(&allowed);
  // More CPUs than a cpu_set_t holds.
  return static_cast<int>(std::thread::hardware_concurrency());
}

std::string machine_name() {
  static const std::string name = read_machine_name();
  return name;
}

}  // namespace rungs::ladder
