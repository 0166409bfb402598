#pragma once
/// @file hops.hpp
/// What rings need of a machine: the links a hop from one rank to another crosses, and what each of
/// these links carries.

#include <rungs/topology/topology.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace rungs::topology {

/// One step of a ring.
struct Hop {
  PathType type = PathType::kNone;
  std::vector<std::size_t> links;  ///< indices into HopTable::capacity, in order
};

/// Members are counted 0, 1, 2, … in rank order, whatever their ranks are.
class HopTable {
 public:
  /// @throws Error kInvalidArgument for a system without ranks, or with two that no path joins
  explicit HopTable(const System& system);

  [[nodiscard]] std::size_t size() const { return ranks_.size(); }
  [[nodiscard]] int rank(std::size_t member) const { return ranks_[member]; }
  [[nodiscard]] const Hop& hop(std::size_t from, std::size_t to) const {
    return hops_[from * size() + to];
  }
  /// GB/s of every directed link that some hop crosses.
  [[nodiscard]] const std::vector<double>& capacity() const { return capacity_; }
  /// "NUMA 0 -> NUMA 1"
  [[nodiscard]] const std::string& link_name(std::size_t link) const { return names_[link]; }
  /// The lowest channel_limit() of the members.
  [[nodiscard]] double limit() const { return limit_; }

  /// Times each link is crossed by these rings. @throws Error kInvalidArgument for a ring that does
  /// not visit every rank once
  [[nodiscard]] std::vector<int> crossings(const std::vector<Ring>& rings) const;
  /// The highest speed at which rings with these crossings fit, up to the limit.
  [[nodiscard]] double fitting_speed(const std::vector<int>& crossings) const;
  /// The worst hop of a ring; kLocal for a single rank.
  [[nodiscard]] PathType worst_type(const std::vector<std::size_t>& members) const;

 private:
  std::vector<int> ranks_;
  std::vector<Hop> hops_;
  std::vector<double> capacity_;
  std::vector<std::string> names_;
  double limit_ = 0;
};

}  // namespace rungs::topology
