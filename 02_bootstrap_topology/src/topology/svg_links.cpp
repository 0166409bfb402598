// The lower half of the picture: NVLinks and rings.
#include "topology/pictures.hpp"

#include <rungs/core/error.hpp>

#include <algorithm>
#include <cmath>
#include <map>

namespace rungs::topology {
namespace {

struct Pair {
  std::size_t left;  // the GPU further left
  std::size_t right;
  double gb_per_s;
};

std::vector<Pair> gpu_pairs(const System& system, const Layout& layout) {
  std::vector<Pair> pairs;
  for (const std::size_t gpu : system.of_type(NodeType::kGpu)) {
    for (const Link& link : system.nodes[gpu].links) {
      const bool once = link.type == LinkType::kNvLink && layout.box(gpu).x < layout.box(link.to).x;
      if (once && system.nodes[link.to].type == NodeType::kGpu) {
        pairs.push_back({gpu, link.to, link.gb_per_s});
      }
    }
  }
  // Short ones nearest to the GPUs.
  std::stable_sort(pairs.begin(), pairs.end(), [&](const Pair& a, const Pair& b) {
    return layout.box(a.right).x - layout.box(a.left).x <
           layout.box(b.right).x - layout.box(b.left).x;
  });
  return pairs;
}

double draw_switch(Canvas& canvas, const System& system, const Layout& layout, std::size_t node) {
  const Box& bar = layout.box(node);
  for (const Link& link : system.nodes[node].links) {
    const Box& gpu = layout.box(link.to);
    canvas.line({gpu.middle(), gpu.bottom()}, {gpu.middle(), bar.y}, kNvLinkColour, 4);
    canvas.text({gpu.middle() + 7, bar.y - 16}, short_number(link.gb_per_s), 10, Anchor::kStart,
                kNvLinkColour);
  }
  canvas.rectangle(bar, "#cfe3a6", "#444444");
  canvas.text({bar.middle(), bar.y + 25}, "NVSwitch", 13, Anchor::kMiddle);
  return bar.bottom();
}

// Every pair on a track of its own height where tracks would overlap; every end at a place of its
// own below its GPU.
double draw_mesh(Canvas& canvas, const Layout& layout, const std::vector<Pair>& pairs) {
  constexpr double kTrack = 19;
  std::map<std::size_t, int> ends;
  for (const Pair& pair : pairs) ++ends[pair.left], ++ends[pair.right];
  std::map<std::size_t, int> used;
  const auto port = [&](std::size_t gpu) {
    const Box& box = layout.box(gpu);
    return box.x + box.width * (++used[gpu]) / (ends[gpu] + 1);
  };
  std::vector<double> track_right;  // where the last link of each track ends
  double bottom = layout.gpus_bottom();
  for (const Pair& pair : pairs) {
    const double left = port(pair.left);
    const double right = port(pair.right);
    // A track may be used again to the right of its last link.
    std::size_t track = 0;
    while (track < track_right.size() && track_right[track] > layout.box(pair.left).x) ++track;
    if (track == track_right.size()) track_right.push_back(0);
    track_right[track] = layout.box(pair.right).x + layout.box(pair.right).width;
    const double y = layout.gpus_bottom() + 22 + kTrack * static_cast<double>(track);
    canvas.path(concat("M", left, ",", layout.gpus_bottom(), " V", y, " H", right, " V",
                       layout.gpus_bottom()),
                kNvLinkColour, std::min(1.2 + pair.gb_per_s / 25, 5.0));
    canvas.text({left + 4, y - 4}, short_number(pair.gb_per_s), 10, Anchor::kStart, kNvLinkColour);
    bottom = std::max(bottom, y);
  }
  return bottom;
}

}  // namespace

double draw_nvlinks(Canvas& canvas, const System& system, const Layout& layout) {
  double bottom = layout.gpus_bottom();
  for (const std::size_t node : system.of_type(NodeType::kNvSwitch)) {
    bottom = std::max(bottom, draw_switch(canvas, system, layout, node));
  }
  const std::vector<Pair> pairs = gpu_pairs(system, layout);
  if (!pairs.empty()) bottom = std::max(bottom, draw_mesh(canvas, layout, pairs));
  return bottom;
}

std::vector<RingGroup> grouped(const Rings& rings) {
  std::vector<RingGroup> groups;
  for (const Ring& ring : rings.rings) {
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const RingGroup& group) {
      return group.ring.ranks == ring.ranks;
    });
    if (same == groups.end()) {
      groups.push_back({ring, 1});
    } else {
      ++same->count;
    }
  }
  return groups;
}

double draw_rings(Canvas& canvas, const System& system, const Layout& layout, const Rings& rings,
                  double top) {
  constexpr double kLane = 92;
  constexpr double kRadius = 10;
  if (rings.rings.empty()) return top;
  canvas.text({Layout::kMargin, top + 12},
              concat(rings.rings.size(), rings.rings.size() == 1 ? " ring, " : " rings, ",
                     short_number(rings.gb_per_s), " GB/s each, ", short_number(rings.total()),
                     " GB/s in all"),
              14, Anchor::kStart);
  std::map<int, double> column;
  for (const std::size_t gpu : system.ranks()) {
    column[system.nodes[gpu].rank] = layout.box(gpu).middle();
  }
  double y = top + 62;
  std::size_t colour_index = 0;
  for (const RingGroup& group : grouped(rings)) {
    const std::string_view colour = kRingColours[colour_index++ % kRingColours.size()];
    canvas.text({Layout::kMargin, y + 4},
                concat(group.count, " x ", short_number(rings.gb_per_s), " GB/s, ",
                       to_string(group.ring.type)),
                11, Anchor::kStart, colour);
    const std::vector<int>& ranks = group.ring.ranks;
    for (std::size_t i = 0; i < ranks.size() && ranks.size() > 1; ++i) {
      const double from = column.at(ranks[i]);
      const double to = column.at(ranks[(i + 1) % ranks.size()]);
      // To the right above the line of ranks, to the left below it; far hops bend further.
      const double way = to > from ? 1 : -1;
      const double bend = kRadius + std::min(std::abs(to - from) * 0.03, 24.0);
      canvas.path(concat("M", from + way * 5, ",", y - way * kRadius, " Q", (from + to) / 2, ",",
                         y - way * 2 * bend, " ", to - way * 7, ",", y - way * kRadius),
                  colour, 2, true);
    }
    for (const int rank : ranks) {
      canvas.dot({column.at(rank), y}, kRadius, colour);
      canvas.text({column.at(rank), y + 4}, std::to_string(rank), 10, Anchor::kMiddle, "#ffffff");
    }
    y += kLane;
  }
  return y - kLane + 46;
}

}  // namespace rungs::topology
