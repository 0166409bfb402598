#include "block.hpp"

#include "cluster.hpp"
#include "sanitizer.hpp"
#include "worker.hpp"

namespace rungs::emulator {

__thread ThreadContext* current_thread = nullptr;

void Block::load(Launch& new_launch, Cluster& new_cluster, unsigned new_rank, Index3 index) {
  const gpu::LaunchConfig& config = new_launch.request->config;
  launch = &new_launch;
  cluster = &new_cluster;
  rank = new_rank;
  block_index = index;
  block_size = {config.block.x, config.block.y, config.block.z};
  grid_size = {config.grid.x, config.grid.y, config.grid.z};
  thread_count = live = new_launch.threads_per_block;
  word_count = (thread_count + 63) / 64;
  cursor = 0;
  direct = new_launch.options.seed == 0 && new_launch.options.async != Async::kRandom;
  plain = direct && !sanitizer::thread_sanitizer() && !sanitizer::address_sanitizer();

  if (thread_capacity_ < thread_count) {
    threads = std::make_unique<Thread[]>(thread_count + kLookAhead);
    thread_capacity_ = thread_count;
    numbered_size_ = {};
  }
  if (numbered_size_.x != block_size.x || numbered_size_.y != block_size.y ||
      numbered_size_.z != block_size.z) {
    Index3 at;
    for (unsigned i = 0; i < thread_count; i++) {
      Thread& thread = threads[i];
      thread.thread_index = at;
      thread.block = this;
      thread.index_ = static_cast<std::uint16_t>(i);
      if (++at.x == block_size.x) {
        at.x = 0;
        if (++at.y == block_size.y) {
          at.y = 0;
          at.z++;
        }
      }
    }
    numbered_size_ = block_size;
  }
  ready.fill(thread_count);
  spinning.clear();
  ended.clear();
  waiting_for_cluster.clear();
  for (NamedBarrier& barrier : barriers) {
    barrier.arrived = 0;
    barrier.plain_arrivals = 0;
    barrier.waiting.clear();
  }
  mbarriers.clear();
  warps.resize((thread_count + 31) / 32);
  for (Warp& warp : warps) {
    for (WarpMeeting& meeting : warp.meetings) meeting.arrived = 0;
    for (Gathering& gathering : warp.gatherings) gathering.arrived = 0;
  }
  if (warp_groups.size() != thread_count / 128) warp_groups.clear();
  for (WarpGroup& group : warp_groups) group.clear();
  copies.clear();
  shared.load(config.shared_bytes);
  bulk_groups.reset();
}

Thread* Block::pick() {
  unsigned from = cursor;
  if (launch->options.seed != 0)
    from = static_cast<unsigned>(cluster->next_random() % thread_count);
  const int found = ready.next(from, word_count);
  if (found < 0) return nullptr;
  const auto i = static_cast<unsigned>(found);
  ready.reset(i);
  cursor = i + 1;
  prefetch_after(threads[i]);
  return &threads[i];
}

void Block::wake(ThreadSet& waiting) {
  ready.take(waiting, word_count);
  this_worker->progress++;
}

}  // namespace rungs::emulator
