#include "facts_host.hpp"

#include <dirent.h>
#include <dlfcn.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <system_error>

namespace rungs::cli::host {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// The value of the first line "key : value" of a /proc file.
std::string field(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key, 0) != 0) continue;
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

std::vector<std::string> entries(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<std::uint64_t> soft_limit(int resource) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0 ||
      limit.rlim_cur == RLIM_INFINITY) {
    return std::nullopt;
  }
  return limit.rlim_cur;
}

}  // namespace

std::string cpu_model() {
  for (const char* key : {"model name", "Model", "CPU implementer"}) {
    std::string model = field("/proc/cpuinfo", key);
    if (!model.empty()) return model;
  }
  return "unknown";
}

double usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  double cores = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  std::istringstream quota(
      first_line("/sys/fs/cgroup/cpu.max"));  // "200000 100000", or "max 100000"
  double allowed = 0;
  double period = 0;
  if (quota >> allowed >> period && period > 0) cores = std::min(cores, allowed / period);
  return cores;
}

std::uint64_t memory_bytes() {
  const std::uint64_t pages = static_cast<std::uint64_t>(std::max(0L, sysconf(_SC_PHYS_PAGES)));
  std::uint64_t bytes = pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  std::istringstream limit(first_line("/sys/fs/cgroup/memory.max"));
  std::uint64_t allowed = 0;
  if (limit >> allowed) bytes = std::min(bytes, allowed);
  return bytes;
}

std::vector<std::string> rdma_devices() { return entries("/sys/class/infiniband"); }

bool verbs_node_usable() {
  for (const std::string& name : entries("/dev/infiniband")) {
    if (name.rfind("uverbs", 0) == 0 &&
        access(("/dev/infiniband/" + name).c_str(), R_OK | W_OK) == 0)
      return true;
  }
  return false;
}

std::vector<std::string> nvidia_gpus() {
  std::vector<std::string> models;
  for (const std::string& address : entries("/proc/driver/nvidia/gpus")) {
    const std::string model =
        field("/proc/driver/nvidia/gpus/" + address + "/information", "Model");
    models.push_back(model.empty() ? "NVIDIA GPU" : model);
  }
  return models;
}

std::string nvcc() {
  std::vector<std::string> folders;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* value = std::getenv(name)) folders.push_back(std::string(value) + "/bin");
  }
  if (const char* path = std::getenv("PATH")) {
    std::istringstream parts(path);
    for (std::string folder; std::getline(parts, folder, ':');) folders.push_back(folder);
  }
  folders.emplace_back("/usr/local/cuda/bin");  // where NVIDIA's packages put it
  for (const std::string& folder : folders) {
    std::string program = folder + "/nvcc";
    if (access(program.c_str(), X_OK) != 0) continue;
    // The toolkit's header says the version; running nvcc takes longer and fails without a
    // compiler.
    std::ifstream header(folder + "/../include/cuda.h");
    for (std::string line; std::getline(header, line);) {
      int version = 0;
      if (std::sscanf(line.c_str(), "#define CUDA_VERSION %d", &version) != 1) continue;
      return program + " " + std::to_string(version / 1000) + "." +
             std::to_string(version / 10 % 100);
    }
    return program;
  }
  return "";
}

std::optional<std::uint64_t> file_system_bytes(const std::string& path) {
  struct statvfs info {};
  if (statvfs(path.c_str(), &info) != 0) return std::nullopt;
  return static_cast<std::uint64_t>(info.f_frsize) * info.f_blocks;
}

std::string memfd_problem() {
  const int descriptor = memfd_create("rungs-doctor", MFD_CLOEXEC);
  if (descriptor < 0) return std::strerror(errno);
  const bool grown = ftruncate(descriptor, 1 << 20) == 0;
  std::string problem = grown ? "" : std::strerror(errno);
  close(descriptor);
  return problem;
}

std::optional<std::uint64_t> locked_memory_limit() { return soft_limit(RLIMIT_MEMLOCK); }
std::optional<std::uint64_t> open_files_limit() { return soft_limit(RLIMIT_NOFILE); }

std::uint64_t map_count_limit() {
  std::istringstream line(first_line("/proc/sys/vm/max_map_count"));
  std::uint64_t count = 0;
  line >> count;
  return count;
}

bool has_library(const char* name) {
  void* library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return false;
  dlclose(library);
  return true;
}

}  // namespace rungs::cli::host
