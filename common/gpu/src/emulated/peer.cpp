#include <rungs/gpu/peer.hpp>

#include "checks.hpp"
#include "device_state.hpp"

#include <rungs/core/error.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace rungs::gpu {

ExportedMemory export_memory(const Device& device, const void* pointer) {
  const detail::Arena& arena = detail::DeviceState::get(device.ordinal()).arena();
  const std::size_t end = arena.exported_end(pointer);
  const int fd = fcntl(arena.descriptor(), F_DUPFD_CLOEXEC, 0);
  if (fd < 0) RUNGS_THROW(kSystem, "export_memory: dup failed: ", std::strerror(errno));
  return {fd, end, arena.offset_of(pointer)};
}

PeerMapping::PeerMapping(const Device& device, const ExportedMemory& memory) {
  detail::DeviceState::get(device.ordinal());
  detail::check_exported(memory);
  struct stat status {};
  RUNGS_REQUIRE(fstat(memory.fd, &status) == 0 && S_ISREG(status.st_mode) &&
                    static_cast<std::size_t>(status.st_size) >= memory.size_bytes,
                "peer mapping: descriptor ", memory.fd, " has ", status.st_size,
                " bytes, the exported memory ", memory.size_bytes,
                "; it is not the descriptor that export_memory() gave");
  // Only this allocation is mapped, from the page that it begins on.
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t first = memory.offset_bytes / page * page;
  mapped_bytes_ = memory.size_bytes - first;
  offset_bytes_ = memory.offset_bytes - first;
  base_ = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, memory.fd,
               static_cast<off_t>(first));
  if (base_ == MAP_FAILED) {
    base_ = nullptr;
    RUNGS_THROW(kSystem, "peer mapping: ", mapped_bytes_, " bytes of descriptor ", memory.fd,
                " cannot be mapped: ", std::strerror(errno));
  }
}

PeerMapping::~PeerMapping() {
  if (base_ != nullptr) munmap(base_, mapped_bytes_);
}

}  // namespace rungs::gpu
