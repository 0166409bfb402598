#pragma once
/// @file facts_host.hpp
/// Looking at the host: small readers of /proc, /sys and limits. Each gives an empty or zero value
/// for what is not there.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rungs::cli::host {

std::string cpu_model();
/// Cores this process may use: its affinity and the control group's quota, whichever is less.
double usable_cores();
/// Of the machine or of the control group, whichever is less.
std::uint64_t memory_bytes();
/// Names in /sys/class/infiniband.
std::vector<std::string> rdma_devices();
/// Whether /dev/infiniband has a node that programs may open.
bool verbs_node_usable();
/// NVIDIA GPUs that the kernel's driver lists, by model.
std::vector<std::string> nvidia_gpus();
/// Path and release of an nvcc in CUDA_HOME, PATH or the toolkit's usual folder.
std::string nvcc();
/// Size of the file system, or nothing when it is not mounted.
std::optional<std::uint64_t> file_system_bytes(const std::string& path);
/// Empty when memory behind a file descriptor can be made, otherwise the reason.
std::string memfd_problem();
/// Soft limit; nothing: unlimited.
std::optional<std::uint64_t> locked_memory_limit();
std::optional<std::uint64_t> open_files_limit();
/// vm.max_map_count.
std::uint64_t map_count_limit();
/// Whether a library of this name can be loaded.
bool has_library(const char* name);

}  // namespace rungs::cli::host
