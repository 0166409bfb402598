// What only NVIDIA's driver knows: which PCI function a CUDA device is, and where its NVLinks lead.
// The libraries are loaded when they are there; nothing of them is needed to build.
#include "topology/constants.hpp"
#include "topology/host_facts.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <memory>

namespace rungs::topology {
namespace {

class Library {
 public:
  explicit Library(const char* name) : handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {}
  template <class Function>
  [[nodiscard]] Function* find(const char* name) const {
    return handle_ == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(handle_.get(), name));
  }

 private:
  struct Close {
    void operator()(void* handle) const { dlclose(handle); }
  };
  std::unique_ptr<void, Close> handle_;
};

// nvml.h: nvmlPciInfo_t as nvmlDeviceGetNvLinkRemotePciInfo_v2 fills it.
struct NvmlPciInfo {
  std::array<char, 16> legacy_bus_id;
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pci_device_id;
  unsigned pci_subsystem_id;
  std::array<char, 32> bus_id;
};
static_assert(sizeof(NvmlPciInfo) == 68);

using NvmlDevice = struct nvmlDevice_st*;
constexpr int kNvmlSuccess = 0;
constexpr unsigned kMostNvLinks = 18;

class Nvml {
 public:
  Nvml() : library_("libnvidia-ml.so.1") {
    auto* const init = library_.find<int()>("nvmlInit_v2");
    ready_ = init != nullptr && init() == kNvmlSuccess;
    device_ = library_.find<int(const char*, NvmlDevice*)>("nvmlDeviceGetHandleByPciBusId_v2");
    state_ = library_.find<int(NvmlDevice, unsigned, unsigned*)>("nvmlDeviceGetNvLinkState");
    remote_ = library_.find<int(NvmlDevice, unsigned, NvmlPciInfo*)>(
        "nvmlDeviceGetNvLinkRemotePciInfo_v2");
  }
  ~Nvml() {
    auto* const shutdown = library_.find<int()>("nvmlShutdown");
    if (ready_ && shutdown != nullptr) shutdown();
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // Where the active NVLinks of a GPU lead.
  [[nodiscard]] std::vector<std::string> targets(const BusId& gpu) const {
    std::vector<std::string> found;
    NvmlDevice device = nullptr;
    if (!ready_ || device_ == nullptr || state_ == nullptr || remote_ == nullptr ||
        device_(to_string(gpu).c_str(), &device) != kNvmlSuccess) {
      return found;
    }
    for (unsigned link = 0; link < kMostNvLinks; ++link) {
      unsigned active = 0;
      if (state_(device, link, &active) != kNvmlSuccess || active == 0) continue;
      NvmlPciInfo info{};
      const bool known = remote_(device, link, &info) == kNvmlSuccess;
      info.bus_id.back() = '\0';
      const std::optional<BusId> id =
          known ? parse_bus_id(info.bus_id.data()) : std::optional<BusId>();
      found.push_back(id ? to_string(*id) : std::string(kHiddenSwitch));
    }
    return found;
  }

 private:
  Library library_;
  bool ready_ = false;
  int (*device_)(const char*, NvmlDevice*) = nullptr;
  int (*state_)(NvmlDevice, unsigned, unsigned*) = nullptr;
  int (*remote_)(NvmlDevice, unsigned, NvmlPciInfo*) = nullptr;
};

}  // namespace

std::optional<BusId> driver_bus_id(int ordinal) {
  // cuda.h: ordinals of the driver are those of the runtime.
  const Library cuda("libcuda.so.1");
  auto* const init = cuda.find<int(unsigned)>("cuInit");
  auto* const device_get = cuda.find<int(int*, int)>("cuDeviceGet");
  auto* const bus_id = cuda.find<int(char*, int, int)>("cuDeviceGetPCIBusId");
  if (init == nullptr || device_get == nullptr || bus_id == nullptr) return std::nullopt;
  int device = 0;
  std::array<char, 32> text{};
  if (init(0) != 0 || device_get(&device, ordinal) != 0 ||
      bus_id(text.data(), static_cast<int>(text.size()), device) != 0) {
    return std::nullopt;
  }
  return parse_bus_id(text.data());
}

std::vector<NvLinkFacts> driver_nvlinks(const std::filesystem::path& sysfs, const BusId& gpu) {
  std::vector<NvLinkFacts> links;
  for (const std::string& target : Nvml().targets(gpu)) {
    // A peer that sysfs does not show is a switch that the virtual machine hides.
    const std::optional<BusId> id = parse_bus_id(target);
    const std::optional<PciFacts> peer = id ? read_pci_device(sysfs, *id) : std::nullopt;
    const bool is_gpu = peer && peer->pci_class.starts_with(kDisplayBase);
    const std::string where = is_gpu ? target : std::string(kHiddenSwitch);
    const auto same = std::find_if(links.begin(), links.end(),
                                   [&](const NvLinkFacts& link) { return link.target == where; });
    if (same != links.end()) {
      ++same->count;
    } else {
      links.push_back({where, std::string(is_gpu ? kGpuClass : kNvSwitchClass), 1});
    }
  }
  return links;
}

}  // namespace rungs::topology
