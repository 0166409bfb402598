// Which ranks share a host, and which a process.

#include "bootstrap/member.hpp"

#include <rungs/core/env.hpp>
#include <rungs/core/random_bytes.hpp>

#include <unistd.h>

#include <array>
#include <fstream>
#include <mutex>

namespace rungs::bootstrap::detail {
namespace {

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string namespace_of(const char* kind) {
  std::array<char, 128> text{};
  const std::string path = concat("/proc/self/ns/", kind);
  const ssize_t size = ::readlink(path.c_str(), text.data(), text.size());
  return size > 0 ? std::string(text.data(), static_cast<std::size_t>(size)) : std::string();
}

}  // namespace

// Two containers on one machine have the same boot id. They share memory and Unix sockets only if
// they share these namespaces, and that is what "same host" is asked for.
Digest host_digest(const std::string& given) {
  const std::string named = given.empty() ? env::string("RUNGS_HOST_ID", "") : given;
  const std::string id = named.empty() ? concat(first_line("/proc/sys/kernel/random/boot_id"), ' ',
                                                namespace_of("ipc"), ' ', namespace_of("net"))
                                       : concat("named ", named);
  return Sha256().update(id).finish();
}

std::array<std::byte, 16> process_token() {
  static std::mutex mutex;
  static std::array<std::byte, 16> token{};
  static pid_t made_by = -1;
  const std::lock_guard lock(mutex);
  // A forked child has its parent's memory, and is another process all the same.
  if (made_by != ::getpid()) {
    fill_random(token);
    made_by = ::getpid();
  }
  return token;
}

}  // namespace rungs::bootstrap::detail
