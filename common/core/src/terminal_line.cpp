#include "terminal_line.hpp"

#include <atomic>
#include <cstdio>

namespace rungs::detail {
namespace {
std::atomic<bool> bar_stands{false};
}  // namespace

void set_bar_on_stderr(bool stands) noexcept { bar_stands.store(stands); }

void wipe_bar() noexcept {
  if (bar_stands.exchange(false)) std::fputs("\r\x1b[K", stderr);
}

}  // namespace rungs::detail
