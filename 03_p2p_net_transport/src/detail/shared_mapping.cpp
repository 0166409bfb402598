#include "detail/shared_mapping.hpp"

#include <rungs/core/error.hpp>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace rungs::transport::detail {

std::shared_ptr<SharedMapping> SharedMapping::create(std::size_t size_bytes) {
  const int fd = memfd_create("rungs-transport", MFD_CLOEXEC);
  if (fd < 0) RUNGS_THROW(kSystem, "memfd_create: ", std::strerror(errno));
  if (ftruncate(fd, static_cast<off_t>(size_bytes)) != 0) {
    const int reason = errno;
    ::close(fd);
    RUNGS_THROW(kSystem, "shared memory of ", size_bytes, " bytes: ", std::strerror(reason));
  }
  return std::shared_ptr<SharedMapping>(new SharedMapping(fd, size_bytes));
}

std::shared_ptr<SharedMapping> SharedMapping::open(int fd, std::size_t size_bytes) {
  struct stat status {};
  const bool fits =
      fstat(fd, &status) == 0 && static_cast<std::size_t>(status.st_size) >= size_bytes;
  if (!fits) {
    ::close(fd);
    RUNGS_THROW(kSystem, "shared memory: the peer's descriptor has ", status.st_size,
                " bytes, not the ", size_bytes, " that were agreed");
  }
  std::shared_ptr<SharedMapping> mapping(new SharedMapping(fd, size_bytes));
  mapping->close_fd();
  return mapping;
}

SharedMapping::SharedMapping(int fd, std::size_t size_bytes) : fd_(fd), size_bytes_(size_bytes) {
  void* const data = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) {
    const int reason = errno;
    close_fd();
    RUNGS_THROW(kSystem, "shared memory: ", size_bytes,
                " bytes cannot be mapped: ", std::strerror(reason));
  }
  data_ = static_cast<std::byte*>(data);
}

SharedMapping::~SharedMapping() {
  close_fd();
  if (data_ != nullptr) munmap(data_, size_bytes_);
}

void SharedMapping::close_fd() noexcept {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

}  // namespace rungs::transport::detail
