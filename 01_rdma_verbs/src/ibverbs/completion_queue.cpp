#include "ibverbs/objects.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>

namespace rungs::verbs::ibverbs {

CompletionQueue::CompletionQueue(std::shared_ptr<Context> context, unsigned depth)
    : context_(std::move(context)),
      handle_(ibv_create_cq(context_->handle.get(), static_cast<int>(std::bit_ceil(depth)), nullptr,
                            nullptr, 0)),
      depth_(std::bit_ceil(depth)) {
  if (!handle_) {
    ibverbs::fail(*context_, "ibv_create_cq", errno);
  }
}

std::size_t CompletionQueue::poll(std::span<Completion> out) noexcept {
  constexpr std::size_t kAtOnce = 32;
  std::array<ibv_wc, kAtOnce> found;
  std::size_t taken = 0;
  while (taken < out.size()) {
    const int wanted = static_cast<int>(std::min(kAtOnce, out.size() - taken));
    const int count = ibv_poll_cq(handle_.get(), wanted, found.data());
    if (count < 0) overflowed_ = true;
    if (count <= 0) break;
    const std::lock_guard lock(mutex_);
    for (int i = 0; i < count; ++i) {
      const ibv_wc& wc = found[static_cast<std::size_t>(i)];
      const auto pair = pairs_.find(wc.qp_num);
      if (pair != pairs_.end()) out[taken++] = pair->second->complete(wc);
    }
    if (count < wanted) break;
  }
  return taken;
}

void CompletionQueue::attach(QueuePair& pair) {
  const std::lock_guard lock(mutex_);
  pairs_[pair.number()] = &pair;
}

void CompletionQueue::detach(QueuePair& pair) {
  const std::lock_guard lock(mutex_);
  pairs_.erase(pair.number());
}

}  // namespace rungs::verbs::ibverbs
