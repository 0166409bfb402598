#include <rungs/gpu/device.hpp>

#include "api.hpp"
#include "shared_memory.hpp"
#include "streams.hpp"

#include <rungs/gpu/counters.hpp>

#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>

namespace rungs::gpu {
namespace {

constexpr int kMaxDevices = 64;

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
std::array<std::atomic<std::uint64_t>, kMaxDevices> launches{};

// Loading a kernel at its first launch synchronises the device: a deadlock while a kernel of
// another rank on the same GPU waits for that launch. So everything is loaded at the start, unless
// the user says otherwise.
void load_eagerly() {
  static const int once =
      setenv("CUDA_MODULE_LOADING", "EAGER", 0);  // NOLINT(concurrency-mt-unsafe)
  (void)once;
}

int attribute(cudaDeviceAttr which, int ordinal) {
  int value = 0;
  detail::check(cudaDeviceGetAttribute(&value, which, ordinal), "cudaDeviceGetAttribute");
  return value;
}

DeviceInfo describe(int ordinal) {
  cudaDeviceProp properties{};
  detail::check(cudaGetDeviceProperties(&properties, ordinal), "cudaGetDeviceProperties");
  DeviceInfo info;
  info.name = properties.name;
  info.ordinal = ordinal;
  info.sm_count = properties.multiProcessorCount;
  info.compute_major = properties.major;
  info.compute_minor = properties.minor;
  info.memory_bytes = properties.totalGlobalMem;
  info.l2_bytes = static_cast<std::size_t>(properties.l2CacheSize);
  info.shared_bytes_per_block =
      static_cast<std::size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, ordinal));
  return info;
}

struct Known {
  std::once_flag once;
  std::atomic<bool> ready = false;
  DeviceInfo info;
};

// Describes the device and creates its context the first time; every launch asks.
const DeviceInfo& known(int ordinal) {
  static std::array<Known, kMaxDevices> all;
  if (ordinal >= 0 && ordinal < kMaxDevices) {
    const Known& one = all[static_cast<std::size_t>(ordinal)];
    if (one.ready.load(std::memory_order_acquire)) return one.info;
  }
  const int count = Device::count();
  RUNGS_REQUIRE(ordinal >= 0 && ordinal < count && ordinal < kMaxDevices, "device ", ordinal,
                " does not exist: ", count, " CUDA devices answer");
  Known& one = all[static_cast<std::size_t>(ordinal)];
  std::call_once(one.once, [&] {
    const detail::DeviceGuard guard(ordinal);
    detail::check(cudaFree(nullptr), concat("device ", ordinal, " does not answer"));
    one.info = describe(ordinal);
    one.ready.store(true, std::memory_order_release);
  });
  return one.info;
}

}  // namespace

int Device::count() {
  load_eagerly();
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  (void)cudaGetLastError();
  return 0;
}

Device Device::open(int ordinal) {
  known(ordinal);
  return Device(ordinal);
}

Device Device::current() {
  int ordinal = 0;
  detail::check(cudaGetDevice(&ordinal), "cudaGetDevice");
  return open(ordinal);
}

const DeviceInfo& Device::info() const { return known(ordinal_); }

void Device::make_current() const { detail::check(cudaSetDevice(ordinal_), "cudaSetDevice"); }

void Device::synchronize(const Deadline& deadline) const {
  if (detail::CaptureScope::innermost() != nullptr)
    detail::refuse_in_capture("Device::synchronize");
  const detail::DeviceGuard guard(ordinal_);
  detail::wait_for([this] { return detail::query_streams(ordinal_); }, deadline,
                   [this] { return concat("synchronize: device ", ordinal_); });
  detail::check(cudaDeviceSynchronize(), concat("synchronize: device ", ordinal_));
}

bool Device::can_access_peer(const Device& other) const {
  int can = 0;
  if (ordinal_ == other.ordinal_) return false;
  detail::check(cudaDeviceCanAccessPeer(&can, ordinal_, other.ordinal_), "cudaDeviceCanAccessPeer");
  return can != 0;
}

void Device::enable_peer_access(const Device& other) const {
  RUNGS_REQUIRE(ordinal_ != other.ordinal_, "device ", ordinal_, " is no peer of itself");
  if (!can_access_peer(other)) {
    RUNGS_THROW(kUnsupported, "device ", ordinal_, " cannot access the memory of device ",
                other.ordinal_);
  }
  const detail::DeviceGuard guard(ordinal_);
  const cudaError_t result = cudaDeviceEnablePeerAccess(other.ordinal_, 0);
  if (result == cudaErrorPeerAccessAlreadyEnabled) {
    (void)cudaGetLastError();
  } else {
    detail::check(result,
                  concat("peer access of device ", ordinal_, " to device ", other.ordinal_));
  }
  detail::enable_shared_access(ordinal_, other.ordinal_);
}

Counters counters(const Device& device) {
  const auto index = static_cast<std::size_t>(device.ordinal());
  return {launches[index].load(std::memory_order_relaxed), std::nullopt, std::nullopt,
          std::nullopt};
}

namespace detail {

void count_launches(int ordinal, std::size_t kernels) noexcept {
  launches[static_cast<std::size_t>(ordinal)].fetch_add(kernels, std::memory_order_relaxed);
}

void reset_error_for_tests(const Device&) { (void)cudaGetLastError(); }

}  // namespace detail
}  // namespace rungs::gpu
