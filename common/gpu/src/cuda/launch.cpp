#include <rungs/gpu/launch.hpp>

#include "api.hpp"
#include "checks.hpp"

#include <rungs/gpu/graph.hpp>

#include <array>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace rungs::gpu {
namespace {

dim3 extent(const Dim3& from) { return {from.x, from.y, from.z}; }

// More than 48 KB of shared memory, static and dynamic together, must be asked for: once for a
// kernel on a device, for the largest launch.
void opt_in_shared_memory(std::string_view name, const void* kernel, int ordinal,
                          unsigned shared_bytes) {
  static std::mutex mutex;
  static std::map<std::pair<const void*, int>, unsigned> allowed;
  const std::lock_guard lock(mutex);
  unsigned& most = allowed[{kernel, ordinal}];
  if (shared_bytes <= most) return;
  const cudaError_t result = cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
  RUNGS_REQUIRE(
      result != cudaErrorInvalidValue, "launch of ", name, ": ", shared_bytes,
      " bytes of dynamic shared memory, with the kernel's static shared memory, are more than "
      "device ",
      ordinal, " has");
  detail::check(result, concat("launch of ", name, ": cudaFuncSetAttribute"));
  most = shared_bytes;
}

[[noreturn]] void refuse_cooperative(std::string_view name, const LaunchConfig& config,
                                     const void* kernel, const DeviceInfo& info) {
  (void)cudaGetLastError();
  int blocks = 0;
  (void)cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &blocks, kernel, static_cast<int>(config.block.count()), config.shared_bytes);
  RUNGS_THROW(kUnsupported, "launch of ", name, ": a cooperative grid of ", config.grid.count(),
              " blocks does not fit on the device, which has ", info.sm_count, " SMs for ", blocks,
              " such blocks each; make the grid smaller");
}

}  // namespace

void launch_raw(std::string_view name, const LaunchConfig& config, StreamHandle stream,
                const void* kernel, Invoke /*only the emulator calls it*/, const KernelArgs& args) {
  const int ordinal = detail::device_of(stream);
  const Device device = Device::open(ordinal);
  const DeviceInfo& info = device.info();
  detail::check_launch(name, config, info, kernel);
  const detail::DeviceGuard guard(ordinal);
  if (config.shared_bytes > 0) opt_in_shared_memory(name, kernel, ordinal, config.shared_bytes);

  std::array<cudaLaunchAttribute, 3> attributes{};
  unsigned count = 0;
  if (config.cluster.count() > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count].val.clusterDim.x = config.cluster.x;
    attributes[count].val.clusterDim.y = config.cluster.y;
    attributes[count].val.clusterDim.z = config.cluster.z;
    ++count;
  }
  if (config.cooperative) {
    attributes[count].id = cudaLaunchAttributeCooperative;
    attributes[count].val.cooperative = 1;
    ++count;
  }
  if (config.programmatic) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count].val.programmaticStreamSerializationAllowed = 1;
    ++count;
  }
  cudaLaunchConfig_t launch{};
  launch.gridDim = extent(config.grid);
  launch.blockDim = extent(config.block);
  launch.dynamicSmemBytes = config.shared_bytes;
  launch.stream = stream;
  launch.attrs = attributes.data();
  launch.numAttrs = count;
  const cudaError_t result = cudaLaunchKernelExC(&launch, kernel, args.pointers);
  if (result == cudaErrorCooperativeLaunchTooLarge) refuse_cooperative(name, config, kernel, info);
  if (result != cudaSuccess) {
    RUNGS_THROW(kCuda, "launch of ", name, " on device ", ordinal, " (grid ",
                detail::to_string(config.grid), ", block ", detail::to_string(config.block), ", ",
                config.shared_bytes, " bytes of dynamic shared memory): ", detail::explain(result));
  }
  if (!is_capturing(stream)) detail::count_launches(ordinal, 1);  // a graph counts its replays
}

}  // namespace rungs::gpu
