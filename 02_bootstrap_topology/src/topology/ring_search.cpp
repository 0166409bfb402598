#include "topology/ring_search.hpp"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

namespace rungs::topology {

RingSearch::RingSearch(const HopTable& table, const Wish& wish)
    : table_(table),
      wish_(wish),
      visited_(table.size(), false) {
  constexpr double kRounding = 1e-9;  // 371 ÷ 7 · 7 may be a little less than 371
  constexpr double kPlenty = 1e6;
  for (const double capacity : table.capacity()) {
    left_.push_back(
        static_cast<int>(std::min(capacity * (1 + kRounding) / wish.gb_per_s, kPlenty)));
  }
}

std::vector<std::vector<std::size_t>> RingSearch::run(long& steps) {
  steps_ = &steps;
  place_ring();
  return best_;
}

// Places one more ring and, from there, all others. True: stop.
bool RingSearch::place_ring() {
  if (placed_.size() > best_.size()) best_ = placed_;
  if (best_.size() >= wish_.most_rings) return true;
  // 1. The last ring once more: in a regular machine that is right at once.
  if (!placed_.empty()) {
    const Members again = placed_.back();
    if (take(again)) {
      placed_.push_back(again);
      if (place_ring()) return true;
      placed_.pop_back();
      for (std::size_t i = 0; i < again.size(); ++i) {
        take(table_.hop(again[i], again[(i + 1) % again.size()]), -1);
      }
    }
  }
  // 2. Any other. A ring has no beginning: all start at member 0.
  const Members ring = std::exchange(ring_, {0});
  const std::vector<bool> visited = std::exchange(visited_, std::vector<bool>(visited_.size()));
  visited_[0] = true;
  const bool stop = extend();
  ring_ = ring;
  visited_ = visited;
  return stop;
}

// Adds one member after another, the most promising first.
bool RingSearch::extend() {
  if (ring_.size() == table_.size()) return close();
  for (const std::size_t next : candidates()) {
    if (--*steps_ < 0) return true;
    const Hop& hop = table_.hop(ring_.back(), next);
    take(hop, 1);
    ring_.push_back(next);
    visited_[next] = true;
    const bool stop = extend();
    visited_[next] = false;
    ring_.pop_back();
    take(hop, -1);
    if (stop) return true;
  }
  return false;
}

bool RingSearch::close() {
  const Hop& hop = table_.hop(ring_.back(), ring_.front());
  if (!usable(hop)) return false;
  take(hop, 1);
  placed_.push_back(ring_);
  const bool stop = place_ring();
  placed_.pop_back();
  take(hop, -1);
  return stop;
}

RingSearch::Members RingSearch::candidates() const {
  const std::size_t at = ring_.back();
  const std::size_t count = table_.size();
  // Better type, then the widest rest, then fewer links, then the neighbour in rank order.
  std::vector<std::tuple<PathType, int, std::size_t, std::size_t>> scored;
  for (std::size_t ahead = 1; ahead < count; ++ahead) {
    const std::size_t next = (at + ahead) % count;
    const Hop& hop = table_.hop(at, next);
    if (visited_[next] || !usable(hop)) continue;
    scored.emplace_back(hop.type, -narrowest(hop), hop.links.size(), ahead);
  }
  std::sort(scored.begin(), scored.end());
  Members members;
  for (const auto& score : scored) members.push_back((at + std::get<3>(score)) % count);
  return members;
}

bool RingSearch::usable(const Hop& hop) const {
  return hop.type <= wish_.worst && narrowest(hop) >= 1;
}

int RingSearch::narrowest(const Hop& hop) const {
  int least = std::numeric_limits<int>::max();
  for (const std::size_t link : hop.links) least = std::min(least, left_[link]);
  return least;
}

bool RingSearch::take(const Members& ring) {
  for (std::size_t i = 0; i < ring.size(); ++i) {
    const Hop& hop = table_.hop(ring[i], ring[(i + 1) % ring.size()]);
    if (!usable(hop)) {
      for (std::size_t j = 0; j < i; ++j) take(table_.hop(ring[j], ring[j + 1]), -1);
      return false;
    }
    take(hop, 1);
  }
  return true;
}

void RingSearch::take(const Hop& hop, int crossings) {
  for (const std::size_t link : hop.links) left_[link] -= crossings;
}

}  // namespace rungs::topology
