#include "completion.hpp"

#include <vector>

namespace rungs::gpu::detail {
namespace {

struct Pending {
  std::vector<Completion> queue;
  std::size_t next = 0;
  bool active = false;
};

thread_local Pending pending;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

}  // namespace

void Completion::finish(const std::string& report) const {
  if (!report.empty()) owner->failed(index, report);
  complete(*this);
}

void complete(const Completion& completion) {
  Pending& mine = pending;
  mine.queue.push_back(completion);
  if (mine.active) return;
  mine.active = true;
  while (mine.next < mine.queue.size()) {
    const Completion now = mine.queue[mine.next++];
    if (mine.next == mine.queue.size()) {
      mine.queue.clear();  // keeps its capacity
      mine.next = 0;
    }
    now.owner->completed(now.index);
  }
  mine.active = false;
}

}  // namespace rungs::gpu::detail
