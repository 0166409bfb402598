#pragma once
/// @file xml_parser.hpp
/// The elements of a description, one function each; how they become a graph.

#include "topology/bus_id.hpp"
#include "topology/xml_source.hpp"

#include <rungs/topology/topology.hpp>

#include <cstddef>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rungs::topology {

class XmlParser {
 public:
  explicit XmlParser(const Source& source) : source_(source) {}
  /// @param needs_gpu whether a description without a GPU is an error
  System parse(bool needs_gpu);

 private:
  /// An <nvlink>, kept until every GPU is known.
  struct NvLink {
    std::size_t gpu;
    Element element;
    int count;
  };

  void read_cpu(const Element& element);
  void read_pci(const Element& element, std::size_t parent, int depth);
  void read_gpu(const Element& element, Node node, std::size_t parent, double gb_per_s);
  void read_nic(const Element& element, Node node, std::size_t parent, double gb_per_s);
  void read_net(const Element& element, std::size_t nic);
  void number_gpus();
  void add_nvlinks();
  void add_nvlink(const NvLink& nvlink);
  void check_ways_back();

  [[nodiscard]] std::vector<Element> children(const Element& element,
                                              std::initializer_list<std::string_view> known) const;
  [[nodiscard]] double pci_bandwidth(const Element& element) const;
  BusId claim_bus_id(const Element& element);
  /// Complains if `key` occurred before: "rank 3 was given at line 12 already".
  void claim(const std::string& key, const Element& element, const char* attribute);
  std::size_t add(Node node, const Element& element);
  std::size_t nv_switch(const Element& element);

  const Source& source_;
  System system_;
  std::map<std::string, std::size_t> claimed_;  // what must be unique -> where it was first
  std::map<BusId, std::size_t> by_bus_id_;      // -> node
  std::vector<NvLink> nvlinks_;
  std::optional<std::size_t> nv_switch_;
  bool has_gpu_elements_ = false;  // a dump has; a file that a cloud ships has not
  std::string host_hash_;
};

}  // namespace rungs::topology
