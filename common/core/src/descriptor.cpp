#include <rungs/core/descriptor.hpp>

#include <unistd.h>

namespace rungs {

int Descriptor::close() noexcept { return fd_ < 0 ? 0 : ::close(release()); }

}  // namespace rungs
