#pragma once
/// @file trace_counts.hpp
/// What is counted of a traced launch.

#include <rungs/emulator/trace.hpp>

#include "trace_clock.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace rungs::emulator::trace {

class Counts {
 public:
  /// @param first_lane no other lane of the warp has executed it yet
  void instruction(const char* name, bool first_lane);
  void landed(const std::string& name, std::uint64_t bytes);
  /// One lane of the access that the warp's lanes make at their `visit`-th time at the site.
  void access(unsigned warp_of_cluster, unsigned lane, std::uint32_t visit, const Site& site,
              std::uint32_t address, unsigned size_bytes);
  /// Adds the finished counts of another cluster.
  void add(const Counts& other);
  /// Accesses of which not all lanes have come are taken as they are.
  void finish();

  Totals totals;  // without the lists
  [[nodiscard]] Totals result() const;

 private:
  struct Access {
    std::uint32_t mask = 0;
    unsigned size_bytes = 0;
    std::uint32_t addresses[32] = {};
  };
  struct Key {
    unsigned warp;
    std::uint32_t visit;
    const char* name;
    const char* file;
    int line;
    auto operator<=>(const Key&) const = default;
  };
  void close(const char* name, const Access& access);

  // By address of the name: a site's name is a literal. Equal texts are joined in result().
  std::map<const char*, std::array<std::uint64_t, 2>> instructions_;  // warps, threads
  std::map<std::string, std::array<std::uint64_t, 2>> landed_;        // operations, bytes
  std::map<std::string, std::array<std::uint64_t, 3>> banks_;         // accesses, wavefronts, ideal
  std::map<Key, Access> open_;
};

}  // namespace rungs::emulator::trace
