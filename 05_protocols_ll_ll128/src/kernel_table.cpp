#include <rungs/protocols/kernel_table.hpp>

#include "detail/ll_entries.hpp"

#include <vector>

namespace rungs::protocols {

collectives::KernelTable kernel_table() {
  static const std::vector<collectives::KernelEntry> table = [] {
    const collectives::KernelTable below = collectives::kernel_table();
    std::vector<collectives::KernelEntry> all(below.begin(), below.end());
    const std::vector<collectives::KernelEntry> ll = detail::ll_entries();
    all.insert(all.end(), ll.begin(), ll.end());
    return all;
  }();
  return table;
}

}  // namespace rungs::protocols
