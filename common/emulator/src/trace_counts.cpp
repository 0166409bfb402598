// Counting a traced launch.

#include "trace_counts.hpp"

#include <rungs/core/error.hpp>

#include <algorithm>
#include <bit>

namespace rungs::emulator::trace {

unsigned bank_wavefronts(const std::uint32_t (&addresses)[32], std::uint32_t mask,
                         unsigned size_bytes, unsigned* ideal) {
  RUNGS_REQUIRE(std::has_single_bit(size_bytes) && size_bytes <= 16,
                "an access to shared memory has 1, 2, 4, 8 or 16 bytes, got ", size_bytes);
  constexpr unsigned kBanks = 32;
  const unsigned passes = size_bytes <= 4 ? 1 : size_bytes / 4;
  const unsigned lanes = 32 / passes;
  unsigned taken = 0;
  *ideal = 0;
  for (unsigned pass = 0; pass < passes; pass++) {
    std::vector<std::uint32_t> words;  // that the pass's lanes ask for
    for (unsigned lane = pass * lanes; lane < (pass + 1) * lanes; lane++) {
      if ((mask >> lane & 1) == 0) continue;
      const std::uint32_t first = addresses[lane] / 4;
      const std::uint32_t last = (addresses[lane] + size_bytes - 1) / 4;
      for (std::uint32_t word = first; word <= last; word++) words.push_back(word);
    }
    if (words.empty()) continue;
    ++*ideal;
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    unsigned in_bank[kBanks] = {};
    for (const std::uint32_t word : words) in_bank[word % kBanks]++;
    taken += *std::max_element(in_bank, in_bank + kBanks);
  }
  return taken;
}

void Counts::instruction(const char* name, bool first_lane) {
  auto& [warps, threads] = instructions_[name];
  warps += first_lane ? 1 : 0;
  threads++;
}

void Counts::landed(const std::string& name, std::uint64_t bytes) {
  auto& [operations, sum] = landed_[name];
  operations++;
  sum += bytes;
}

void Counts::access(unsigned warp_of_cluster, unsigned lane, std::uint32_t visit, const Site& site,
                    std::uint32_t address, unsigned size_bytes) {
  const Key key{warp_of_cluster, visit, site.name, site.where.file, site.where.line};
  Access& access = open_[key];
  access.mask |= 1u << lane;
  access.size_bytes = size_bytes;
  access.addresses[lane] = address;
  if (access.mask != ~0u) return;
  close(site.name, access);
  open_.erase(key);
}

void Counts::close(const char* name, const Access& access) {
  unsigned ideal = 0;
  const unsigned taken = bank_wavefronts(access.addresses, access.mask, access.size_bytes, &ideal);
  auto& [accesses, wavefronts, least] = banks_[name];
  accesses++;
  wavefronts += taken;
  least += ideal;
}

void Counts::finish() {
  for (const auto& [key, access] : open_) close(key.name, access);
  open_.clear();
}

void Counts::add(const Counts& other) {
  totals.blocks += other.totals.blocks;
  totals.threads += other.totals.threads;
  totals.mma_flops += other.totals.mma_flops;
  totals.barriers += other.totals.barriers;
  totals.fiber_switches += other.totals.fiber_switches;
  const auto add_to = [](auto& sums, const auto& values) {
    for (const auto& [name, value] : values) {
      auto& sum = sums[name];
      for (std::size_t i = 0; i < value.size(); i++) sum[i] += value[i];
    }
  };
  add_to(instructions_, other.instructions_);
  add_to(landed_, other.landed_);
  add_to(banks_, other.banks_);
}

Totals Counts::result() const {
  Totals result = totals;
  std::map<std::string, std::array<std::uint64_t, 2>> by_text;
  for (const auto& [name, count] : instructions_) {
    by_text[name][0] += count[0];
    by_text[name][1] += count[1];
  }
  for (const auto& [name, count] : by_text)
    result.instructions.push_back({name, count[0], count[1]});
  for (const auto& [name, count] : landed_)
    result.asynchronous.push_back({name, count[0], count[1]});
  for (const auto& [name, count] : banks_)
    result.banks.push_back({name, count[0], count[1], count[2]});
  return result;
}

}  // namespace rungs::emulator::trace
