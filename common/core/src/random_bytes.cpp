#include <rungs/core/random_bytes.hpp>

#include <rungs/core/error.hpp>

#include <sys/random.h>

#include <cerrno>
#include <system_error>

namespace rungs {

void fill_random(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::getrandom(bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      RUNGS_THROW(kSystem, "random bytes: getrandom: ", std::generic_category().message(errno));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
}

}  // namespace rungs
