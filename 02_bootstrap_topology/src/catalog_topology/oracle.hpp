#pragma once
/// @file oracle.hpp What rings really carry, found without the library's paths and search: by
///         listing every path there is, and on small machines every set of rings.

#include <rungs/topology/topology.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace rungs::topology {

class Oracle {
 public:
  explicit Oracle(const System& system);

  /// The best path between two nodes by looking at all of them; the rules are those of Paths.
  [[nodiscard]] Path best_path(std::size_t from, std::size_t to) const;
  /// Empty if every ring visits every rank once, otherwise what is wrong.
  [[nodiscard]] std::string broken(const Rings& rings) const;
  /// GB/s of one ring, if all run at once and share links fairly.
  [[nodiscard]] double carried(const Rings& rings) const;
  /// The most that up to `most_rings` rings of one speed carry together, by trying all sets of
  /// rings.
  [[nodiscard]] double optimum(int most_rings) const;
  /// No set of rings carries more: each leaves every GPU once.
  [[nodiscard]] double at_most() const;

 private:
  using Crossings = std::vector<int>;

  void walk(std::vector<std::size_t>& nodes, PathType worst, double width, std::size_t to,
            Path& best) const;
  [[nodiscard]] Crossings crossings(const std::vector<int>& ranks) const;
  [[nodiscard]] double speed(const Crossings& crossings) const;
  void try_sets(const std::vector<Crossings>& orders, std::size_t first, int placed, int most,
                Crossings& sum, double& best) const;

  const System& system_;
  std::vector<std::size_t> gpus_;
  double channel_ = 0;
  std::vector<Path> hops_;          // between GPUs
  std::vector<double> capacities_;  // of the directed pairs of nodes that hops cross
  std::vector<std::size_t> pair_of_;
};

}  // namespace rungs::topology
