#pragma once
/// @file ring_search.hpp
/// The inner search: how many rings of one speed fit, over hops no worse than one type.

#include "topology/hops.hpp"

#include <cstddef>
#include <vector>

namespace rungs::topology {

class RingSearch {
 public:
  struct Wish {
    PathType worst;  ///< hops of a worse type are not taken
    double gb_per_s;
    std::size_t most_rings;
  };

  RingSearch(const HopTable& table, const Wish& wish);
  /// Runs until `most_rings` are placed, everything was tried, or `steps` hops were; counts `steps`
  /// down. @return the most rings found at once, as members
  std::vector<std::vector<std::size_t>> run(long& steps);

 private:
  using Members = std::vector<std::size_t>;

  bool place_ring();
  bool extend();
  bool close();
  [[nodiscard]] Members candidates() const;
  [[nodiscard]] bool usable(const Hop& hop) const;
  [[nodiscard]] int narrowest(const Hop& hop) const;
  bool take(const Members& ring);
  void take(const Hop& hop, int crossings);

  const HopTable& table_;
  Wish wish_;
  std::vector<int> left_;  // crossings each link can still bear: whole numbers, so nothing rounds
  std::vector<Members> placed_;
  std::vector<Members> best_;
  Members ring_;  // the one being placed
  std::vector<bool> visited_;
  long* steps_ = nullptr;
};

}  // namespace rungs::topology
