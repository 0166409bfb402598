// From what was recorded to tracks: names, and slices that do not overlap.

#include <rungs/core/error.hpp>

#include "trace_recorder.hpp"

#include <algorithm>
#include <bit>
#include <string>
#include <string_view>
#include <utility>

namespace rungs::emulator::trace {
namespace {

std::string place(Location where) {
  std::string file = where.file;
  file.erase(0, file.find_last_of('/') + 1);
  return file.empty() ? "" : concat(file, ":", where.line);
}

void add_place(Facts& facts, Location where) {
  const std::string text = place(where);
  if (!text.empty()) facts.emplace_back("source", text);
}

std::string lanes_text(std::uint32_t lanes) {
  if (lanes == ~0u) return "all";
  const int count = std::popcount(lanes);
  return count == 1 ? concat("lane ", std::countr_zero(lanes)) : concat(count, " lanes");
}

Slice slice_of(const WarpInstruction& instruction) {
  Slice slice;
  slice.what = What::kInstruction;
  slice.begin = instruction.at;
  slice.end = instruction.at + 1;
  slice.name = instruction.site.name;
  if (instruction.number != kNoNumber) slice.name += concat(" ", instruction.number);
  slice.facts.emplace_back("lanes", lanes_text(instruction.lanes));
  add_place(slice.facts, instruction.site.where);
  return slice;
}

bool is_on_mbarrier(const WarpInstruction& instruction) {
  return std::string_view(instruction.site.name).starts_with("mbarrier");
}

Slice wait_of(const WarpInstruction& instruction, Step end) {
  Slice slice;
  slice.what = What::kWait;
  slice.begin = instruction.at + 1;
  slice.unfinished = instruction.wait_end == kOpen;
  slice.end = slice.unfinished ? std::max(end, slice.begin + 1) : instruction.wait_end;
  slice.name = instruction.polls ? "polls" : concat("waits: ", instruction.site.name);
  if (instruction.number != kNoNumber && !instruction.polls)
    slice.name += concat(" ", instruction.number);
  if (is_on_mbarrier(instruction) && instruction.waits_for != kNoNumber)
    slice.name += concat(" phase ", instruction.waits_for);
  slice.facts.emplace_back("lanes", lanes_text(instruction.lanes));
  add_place(slice.facts, instruction.site.where);
  return slice;
}

// A warp does one thing at a time: where slices overlap (lanes that wait for others of their warp),
// the one that began last is shown.
std::vector<Slice> flatten(std::vector<Slice> slices) {
  std::stable_sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  std::vector<Slice> result;
  std::vector<const Slice*> under;
  Step at = 0;
  const auto show = [&](const Slice& slice, Step end) {
    if (at >= end) return;
    Slice part = slice;
    part.begin = at;
    part.end = end;
    part.unfinished = slice.unfinished && end == slice.end;
    result.push_back(std::move(part));
    at = end;
  };
  const auto pop_until = [&](Step begin) {
    while (!under.empty() && under.back()->end <= begin) {
      show(*under.back(), under.back()->end);
      under.pop_back();
    }
  };
  for (const Slice& slice : slices) {
    pop_until(slice.begin);
    if (!under.empty()) show(*under.back(), slice.begin);
    at = slice.begin;
    under.push_back(&slice);
  }
  pop_until(~Step{0});
  return result;
}

// Deals slices that overlap to as few tracks as needed; returns each one's track.
class Lanes {
 public:
  Lanes(Cta& cta, What what, unsigned owner, std::string name)
      : cta_(cta),
        what_(what),
        owner_(owner),
        name_(std::move(name)) {}
  std::size_t add(Slice slice) {
    for (const std::size_t track : tracks_) {
      std::vector<Slice>& slices = cta_.tracks[track].slices;
      if (slices.back().end > slice.begin) continue;
      slices.push_back(std::move(slice));
      return track;
    }
    Track& track = cta_.tracks.emplace_back();
    track.what = what_;
    track.owner = owner_;
    track.name = tracks_.empty() ? name_ : concat(name_, " (", tracks_.size() + 1, ")");
    track.slices.push_back(std::move(slice));
    tracks_.push_back(cta_.tracks.size() - 1);
    return tracks_.back();
  }

 private:
  Cta& cta_;
  What what_;
  unsigned owner_;
  std::string name_;
  std::vector<std::size_t> tracks_;
};

class Builder {
 public:
  Builder(const Recorder& recorder, const BlockRecord& block, unsigned rank)
      : recorder_(recorder),
        block_(block),
        rank_(rank),
        end_(recorder.now + 1 + recorder.now / 16) {
    cta_.index = block.index;
    cta_.dropped = block.dropped;
  }

  Cta build() {
    for (unsigned w = 0; w < block_.warps.size(); w++) add_warp(w);
    add_operations(What::kCopy, 0, "copies");
    for (unsigned g = 0; g < block_.warp_groups.size(); g++) {
      add_operations(What::kMultiplication, g, concat("warpgroup ", g, ": wgmma"));
      add_groups(g, concat("warpgroup ", g, ": groups"));
    }
    unsigned number = 0;
    for (const BarrierRecord& barrier : block_.barriers) add_barrier(barrier, number++);
    add_cluster_barrier();
    return std::move(cta_);
  }

 private:
  void add_warp(unsigned w) {
    std::vector<Slice> slices;
    for (const WarpInstruction& instruction : block_.warps[w].instructions) {
      if (instruction.lanes == 0) continue;
      slices.push_back(slice_of(instruction));
      if (instruction.wait_end <= instruction.at + 1) continue;
      slices.push_back(wait_of(instruction, end_));
      slices.back().mbarrier = barrier_of(instruction);
    }
    Track& track = cta_.tracks.emplace_back();
    track.what = What::kInstruction;
    track.owner = w;
    track.name = concat("warp ", w);
    track.slices = flatten(std::move(slices));
  }

  // The number of the mbarrier that it waits for; -1: of none.
  [[nodiscard]] int barrier_of(const WarpInstruction& instruction) const {
    if (!is_on_mbarrier(instruction)) return -1;
    int found = -1;
    for (std::size_t i = 0; i < block_.barriers.size(); i++) {
      if (block_.barriers[i].offset == instruction.number) found = static_cast<int>(i);
    }
    return found;
  }

  void add_operations(What what, unsigned group, const std::string& name) {
    std::vector<const OperationRecord*> mine;
    for (const OperationRecord& operation : recorder_.operations) {
      const bool in_group = what == What::kCopy || operation.warp_group == group;
      if (operation.drawn && operation.what == what && operation.rank == rank_ && in_group)
        mine.push_back(&operation);
    }
    std::stable_sort(mine.begin(), mine.end(),
                     [](const auto* a, const auto* b) { return a->issued < b->issued; });
    Lanes lanes(cta_, what, group, name);
    for (const OperationRecord* operation : mine) {
      Slice slice;
      slice.what = what;
      slice.begin = operation->issued + 1;
      slice.unfinished = operation->under_way > 0;
      slice.end = slice.unfinished ? end_ : operation->landed;
      slice.name = operation->description.name;
      slice.facts = operation->description.facts;
      if (operation->description.bytes != 0)
        slice.facts.emplace_back("bytes", std::to_string(operation->description.bytes));
      if (operation->pieces > 1)
        slice.facts.emplace_back("by lanes", std::to_string(operation->pieces));
      slice.facts.emplace_back("issued by", concat("warp ", operation->warp));
      add_place(slice.facts, operation->where);
      const Step end = slice.end;
      const std::size_t track = lanes.add(std::move(slice));
      const auto& instructions = block_.warps[operation->warp].instructions;
      if (operation->under_way > 0 || operation->instruction >= instructions.size()) continue;
      const WarpInstruction& issuer = instructions[operation->instruction];
      if (issuer.lanes != 0 && issuer.at < end)
        cta_.arrows.push_back({operation->warp, issuer.at, track, end});
    }
  }

  void add_groups(unsigned g, const std::string& name) {
    const WarpGroupRecord& record = block_.warp_groups[g];
    Lanes lanes(cta_, What::kGroup, g, name);
    std::uint64_t first = 0;
    for (std::size_t i = 0; i < record.groups.size(); i++) {
      const GroupRecord& group = record.groups[i];
      const std::uint64_t begin = std::exchange(first, group.end);
      if (group.end == begin) continue;  // an empty one
      Slice slice;
      slice.what = What::kGroup;
      slice.begin = group.begin;
      slice.unfinished = !record.done.reached(group.end - 1);
      slice.end = slice.unfinished ? end_ : record.done.times[group.end - 1];
      if (slice.end <= slice.begin) slice.end = slice.begin + 1;  // done before it was committed
      slice.name = concat("group ", i);
      slice.facts.emplace_back("multiplications", std::to_string(group.end - begin));
      add_place(slice.facts, group.where);
      lanes.add(std::move(slice));
    }
  }

  void add_barrier(const BarrierRecord& barrier, unsigned number) {
    Track& track = cta_.tracks.emplace_back();
    track.what = What::kPhase;
    track.owner = number;
    track.name = concat("mbarrier ", barrier.offset, " (", place(barrier.where), ")");
    Step begin = barrier.begin;
    for (std::size_t i = 0; i < barrier.phases.size(); i++) {
      const PhaseRecord& phase = barrier.phases[i];
      Slice slice;
      slice.what = What::kPhase;
      slice.begin = begin;
      slice.unfinished = !barrier.ends.reached(i);
      if (slice.unfinished && phase.arrivals == 0 && phase.landed_bytes == 0) break;
      begin = slice.unfinished ? end_ : barrier.ends.times[i];
      slice.end = std::max(begin, slice.begin + 1);
      slice.name = concat("phase ", i);
      slice.facts = {{"parity", std::to_string(i & 1)},
                     {"arrivals", concat(phase.arrivals, " of ", barrier.count)},
                     {"bytes expected", std::to_string(phase.expected_bytes)},
                     {"bytes landed", std::to_string(phase.landed_bytes)}};
      track.slices.push_back(std::move(slice));
    }
    track.marks = barrier.marks;
    std::stable_sort(track.marks.begin(), track.marks.end(),
                     [](const Mark& a, const Mark& b) { return a.at < b.at; });
  }

  void add_cluster_barrier() {
    const Milestones* meeting = recorder_.find_meeting(recorder_.cluster);
    if (meeting == nullptr) return;
    Track& track = cta_.tracks.emplace_back();
    track.what = What::kPhase;
    track.name = "cluster barrier";
    Step begin = 0;
    for (std::size_t i = 0; i < meeting->times.size(); i++) {
      Slice slice;
      slice.what = What::kPhase;
      slice.begin = std::exchange(begin, meeting->times[i]);
      slice.end = std::max(begin, slice.begin + 1);
      slice.name = concat("phase ", i);
      track.slices.push_back(std::move(slice));
    }
  }

  const Recorder& recorder_;
  const BlockRecord& block_;
  const unsigned rank_;
  const Step end_;  // of what is never over: a little to the right of everything else
  Cta cta_;
};

}  // namespace

std::vector<Cta> timelines(const Recorder& recorder) {
  std::vector<Cta> result;
  for (unsigned r = 0; r < recorder.blocks.size(); r++) {
    if (recorder.blocks[r].drawn)
      result.push_back(Builder(recorder, recorder.blocks[r], r).build());
  }
  return result;
}

}  // namespace rungs::emulator::trace
