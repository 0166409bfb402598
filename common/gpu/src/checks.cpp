#include "checks.hpp"

#include <rungs/core/error.hpp>
#include <rungs/gpu/host_registration.hpp>

#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace rungs::gpu::detail {
namespace {

// CUDA's limits for every GPU rungs runs on (CUDA C++ Programming Guide, "Compute Capabilities").
constexpr Dim3 kMaxGrid{2147483647u, 65535u, 65535u};
constexpr Dim3 kMaxBlock{1024, 1024, 64};
constexpr unsigned kMaxThreads = 1024;
constexpr unsigned kMaxCluster = 8;

void check_extent(std::string_view name, const char* what, const Dim3& extent, const Dim3& most) {
  const unsigned values[] = {extent.x, extent.y, extent.z};
  const unsigned limits[] = {most.x, most.y, most.z};
  for (int i = 0; i < 3; ++i) {
    RUNGS_REQUIRE(values[i] >= 1 && values[i] <= limits[i], "launch of ", name, ": ", what, '.',
                  "xyz"[i], " is ", values[i], ", it must be 1 to ", limits[i]);
  }
}

}  // namespace

std::string to_string(const Dim3& extent) { return concat(extent.x, 'x', extent.y, 'x', extent.z); }

void check_launch(std::string_view name, const LaunchConfig& config, const DeviceInfo& info,
                  const void* kernel) {
  RUNGS_REQUIRE(!name.empty(), "launch: the kernel has no name");
  RUNGS_REQUIRE(kernel != nullptr, "launch of ", name, ": the kernel is null");
  check_extent(name, "grid", config.grid, kMaxGrid);
  check_extent(name, "block", config.block, kMaxBlock);
  RUNGS_REQUIRE(config.block.count() <= kMaxThreads, "launch of ", name, ": a block of ",
                to_string(config.block), " has ", config.block.count(), " threads, at most ",
                kMaxThreads, " are possible");
  RUNGS_REQUIRE(config.shared_bytes <= info.shared_bytes_per_block, "launch of ", name, ": ",
                config.shared_bytes, " bytes of dynamic shared memory a block, ", info.name,
                " has ", info.shared_bytes_per_block);
  const Dim3& cluster = config.cluster;
  RUNGS_REQUIRE(cluster.count() >= 1 && cluster.count() <= kMaxCluster, "launch of ", name,
                ": a cluster of ", to_string(cluster), " has ", cluster.count(),
                " blocks, it must have 1 to ", kMaxCluster);
  RUNGS_REQUIRE(config.grid.x % cluster.x == 0 && config.grid.y % cluster.y == 0 &&
                    config.grid.z % cluster.z == 0,
                "launch of ", name, ": the grid ", to_string(config.grid),
                " is not a multiple of the cluster ", to_string(cluster));
}

void check_copy(const void* to, const void* from, std::size_t size_bytes) {
  if (size_bytes == 0) return;
  RUNGS_REQUIRE(to != nullptr, "copy of ", size_bytes, " bytes: the destination is null");
  RUNGS_REQUIRE(from != nullptr, "copy of ", size_bytes, " bytes: the source is null");
  const auto first = reinterpret_cast<std::uintptr_t>(to);
  const auto second = reinterpret_cast<std::uintptr_t>(from);
  const std::uintptr_t apart = first > second ? first - second : second - first;
  RUNGS_REQUIRE(apart >= size_bytes, "copy of ", size_bytes,
                " bytes: source and destination overlap, ", from, " and ", to, " are ", apart,
                " bytes apart");
}

void check_fill(const void* to, std::size_t size_bytes) {
  RUNGS_REQUIRE(to != nullptr || size_bytes == 0, "fill of ", size_bytes,
                " bytes: the destination is null");
}

void check_exported(const ExportedMemory& memory) {
  struct stat status {};
  RUNGS_REQUIRE(fstat(memory.fd, &status) == 0, "peer mapping: descriptor ", memory.fd,
                " cannot be used: ", std::strerror(errno));
  RUNGS_REQUIRE(memory.offset_bytes < memory.size_bytes, "peer mapping: offset ",
                memory.offset_bytes, " lies outside the ", memory.size_bytes,
                " bytes of the exported memory");
}

void check_host_range(const void* pointer, std::size_t size_bytes) {
  constexpr std::size_t kPage = HostRegistration::kPageBytes;
  const std::string what = concat("registration of ", size_bytes, " bytes of host memory");
  RUNGS_REQUIRE(pointer != nullptr, what, ": the pointer is null");
  RUNGS_REQUIRE(size_bytes > 0 && size_bytes % kPage == 0 &&
                    reinterpret_cast<std::uintptr_t>(pointer) % kPage == 0,
                what, " at ", pointer, ": both must be multiples of ", kPage, ", the size not 0");
}

std::string registered_already(std::size_t size_bytes) {
  return concat("registration of ", size_bytes,
                " bytes of host memory: some of them are registered already; keep that "
                "registration, or end it first");
}

std::string refused_in_capture(std::string_view call) {
  return concat(
      call,
      ": not possible while a graph is being captured, whose work does not run yet; move it out "
      "of the captured body");
}

}  // namespace rungs::gpu::detail
