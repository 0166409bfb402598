#pragma once
/// @file graph.hpp
/// A System under construction.

#include <rungs/topology/topology.hpp>

#include <cstddef>

namespace rungs::topology {

/// Adds bandwidth to the link from -> to of this type; makes the link if there is none.
void connect_one_way(System& system, std::size_t from, std::size_t to, LinkType type,
                     double gb_per_s);
/// Both directions.
void connect(System& system, std::size_t a, std::size_t b, LinkType type, double gb_per_s);
/// Joins every two CPUs with what their generation carries between sockets.
void connect_cpus(System& system);

/// The widest link from -> to; null if there is none.
const Link* find_link(const System& system, std::size_t from, std::size_t to);
/// The node one PCI link nearer to the CPU; `node` itself for a CPU and for what hangs on no PCI.
std::size_t pci_parent(const System& system, std::size_t node);
/// The CPU a PCI device or network belongs to; `node` itself if it has none.
std::size_t cpu_of(const System& system, std::size_t node);

}  // namespace rungs::topology
