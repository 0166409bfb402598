#include "facts.hpp"

#include "facts_host.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <rungs/config.hpp>

#include <cmath>

#if defined(__x86_64__)
#define RUNGS_CLI_ARCHITECTURE "x86-64"
#elif defined(__aarch64__)
#define RUNGS_CLI_ARCHITECTURE "Arm64"
#else
#define RUNGS_CLI_ARCHITECTURE "another architecture"
#endif

namespace rungs::cli {
namespace {

std::string in_units(std::uint64_t bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  return mib < 1024 ? fmt::format("{:.0f} MiB", mib) : fmt::format("{:.1f} GiB", mib / 1024);
}

std::string limit_text(const std::optional<std::uint64_t>& limit) {
  return limit ? in_units(*limit) : "unlimited";
}

Fact gpu_fact(const gpu::Device& device) {
  const gpu::DeviceInfo& info = device.info();
  if (!info.emulated) {
    return {"GPU",
            fmt::format("{} ({} SMs, sm_{}{}, {})", info.name, info.sm_count, info.compute_major,
                        info.compute_minor, in_units(info.memory_bytes)),
            Verdict::kReal, "kernels run on it, and are timed"};
  }
  const std::vector<std::string> present = host::nvidia_gpus();
  const std::string found =
      present.empty()
          ? fmt::format("none: {}", info.name)
          : fmt::format("{} is here, but this build is emulated: {}", present.front(), info.name);
  std::string follows =
      "the same kernel sources run in the emulator: results are checked, work is counted, and no "
      "time of a kernel is "
      "shown, because it would say nothing about a GPU";
  if (!present.empty())
    follows += ". ./rungs takes the GPU when it is sm_90 and CUDA 12.8 or newer is installed";
  return {"GPU", found, Verdict::kEmulated, follows};
}

Fact nic_fact() {
  const auto devices = host::rdma_devices();
  if (devices.empty()) {
    return {"RDMA NIC", "none", Verdict::kLacks, "the software HCA of stage 01 stands in for it"};
  }
  return {"RDMA NIC", fmt::format("{}", fmt::join(devices, ", ")), Verdict::kNote,
          host::verbs_node_usable()
              ? "stage 01 can open it; its ibverbs provider has not been run on hardware yet"
              : "/dev/infiniband/uverbs* may not be opened by this user"};
}

Fact rank_fact() {
  return {"ranks", "threads and processes", Verdict::kNote,
          "the tour trains over four threads as two nodes of two; 'rungs launch' starts processes"};
}

Fact cores_fact() {
  const double cores = host::usable_cores();
  return {"CPU", fmt::format("{}, {}", host::cpu_model(), RUNGS_CLI_ARCHITECTURE), Verdict::kReal,
          fmt::format("{:.{}f} {} usable{}", cores, cores == std::floor(cores) ? 0 : 1,
                      cores == 1 ? "core" : "cores",
                      cores < 2 ? ": the tour expects two and takes longer" : "")};
}

Fact memory_fact() {
  const std::uint64_t bytes = host::memory_bytes();
  constexpr std::uint64_t kEnough = std::uint64_t{2} << 30;
  if (bytes < kEnough) {
    return {"memory", in_units(bytes), Verdict::kLacks,
            "building wants 2 GiB: use './rungs' with fewer jobs"};
  }
  return {"memory", in_units(bytes), Verdict::kReal, "enough"};
}

Fact build_fact() {
#if defined(RUNGS_SANITIZE_ADDRESS)
  const char* instrumented = ", AddressSanitizer";
#elif defined(RUNGS_SANITIZE_THREAD)
  const char* instrumented = ", ThreadSanitizer";
#else
  const char* instrumented = "";
#endif
#if defined(__OPTIMIZE__)
  const char* optimised = "optimised";
#else
  const char* optimised = "not optimised";
#endif
  return {
    "this build",
        fmt::format("rungs {}, {} back end, {}{}", RUNGS_VERSION,
                    RUNGS_GPU_CUDA != 0 ? "CUDA" : "emulated", optimised, instrumented),
        Verdict::kNote,
        fmt::format("compiled as C++{} by {}", (__cplusplus / 100) % 100,
#if defined(__clang__)
                    "clang " __clang_version__
#elif defined(__GNUC__)
                    "g++ " __VERSION__
#else
                    "an unknown compiler"
#endif
        )
  };
}

Fact toolkit_fact() {
  const std::string program = host::nvcc();
  if (program.empty()) {
    return {"CUDA toolkit", "none", Verdict::kEmulated, "not needed for the emulated build"};
  }
  return {"CUDA toolkit", program, Verdict::kNote,
          host::nvidia_gpus().empty()
              ? "kernels can be compiled for a GPU (preset cuda), not run here"
              : "preset cuda builds for the GPU"};
}

Fact shared_memory_fact() {
  const auto bytes = host::file_system_bytes("/dev/shm");
  return {"/dev/shm", bytes ? in_units(*bytes) : "not mounted", Verdict::kNote,
          "not used: memory that processes share lies behind file descriptors (memfd)"};
}

Fact memfd_fact() {
  const std::string problem = host::memfd_problem();
  if (problem.empty())
    return {"memfd", "works", Verdict::kReal, "emulated device memory can be mapped by peers"};
  return {"memfd", problem, Verdict::kLacks,
          "emulated device memory cannot be made: allow memfd_create(2)"};
}

Fact locked_memory_fact() {
  const auto limit = host::locked_memory_limit();
  constexpr std::uint64_t kWanted = std::uint64_t{1} << 30;
  const bool small = limit && *limit < kWanted;
  return {"locked memory", limit_text(limit), small ? Verdict::kNote : Verdict::kReal,
          small ? "RDMA registration will need more: 'ulimit -l unlimited'. Nothing of today's "
                  "stages does"
                : "enough to register memory for RDMA"};
}

Fact descriptors_fact() {
  const auto limit = host::open_files_limit();
  const bool few = limit && *limit < 1024;
  return {"limits",
          fmt::format("{} open files, {} memory maps", limit ? std::to_string(*limit) : "unlimited",
                      host::map_count_limit()),
          few ? Verdict::kLacks : Verdict::kReal, few ? "raise it: 'ulimit -n 4096'" : "enough"};
}

Fact hwloc_fact() {
  const bool there = host::has_library("libhwloc.so.15");
  return {"hwloc", there ? "installed" : "none", Verdict::kNote,
          "stage 02 reads this machine's CPUs with it"};
}

}  // namespace

std::vector<Fact> main_facts(const gpu::Device& device) {
  return {gpu_fact(device), nic_fact(), rank_fact(), cores_fact()};
}

std::vector<Fact> all_facts(const gpu::Device& device) {
  return {gpu_fact(device), nic_fact(),           rank_fact(),        cores_fact(),
          memory_fact(),    build_fact(),         toolkit_fact(),     shared_memory_fact(),
          memfd_fact(),     locked_memory_fact(), descriptors_fact(), hwloc_fact()};
}

}  // namespace rungs::cli
