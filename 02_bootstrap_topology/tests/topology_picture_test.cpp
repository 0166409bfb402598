/// Pictures: well-formed, complete, inside their frame, and no text on another.

#include "catalog_topology/machines.hpp"
#include "random_machine.hpp"

#include <rungs/topology/topology.hpp>

#include <gtest/gtest.h>

#include <pugixml.hpp>
#include <string>
#include <vector>

namespace rungs::topology {
namespace {

/// About what a text covers: DejaVu Sans is less than 0.65 em a letter wide on average.
struct Label {
  double left, top, right, bottom;
  std::string text;
};

std::vector<Label> labels(const pugi::xml_document& svg) {
  std::vector<Label> found;
  for (const pugi::xpath_node& each : svg.select_nodes("//text")) {
    const pugi::xml_node node = each.node();
    const double size = node.attribute("font-size").as_double();
    const std::string text = node.child_value();
    const double width = 0.62 * size * static_cast<double>(text.size());
    const std::string anchor = node.attribute("text-anchor").value();
    const double x = node.attribute("x").as_double();
    const double left = anchor == "start" ? x : anchor == "end" ? x - width : x - width / 2;
    const double y = node.attribute("y").as_double();
    found.push_back({left, y - 0.75 * size, left + width, y + 0.2 * size, text});
  }
  return found;
}

std::vector<Machine> machines() {
  std::vector<Machine> all = {switched(80), switched(90), cube_mesh(), interleaved_pcie(),
                              full_mesh(8, 80, 1)};
  for (std::uint64_t seed = 0; seed < 20; ++seed) all.push_back(random_machine(seed, 8));
  return all;
}

TEST(TopologySvg, TextsAreApartAndInsideTheFrame) {
  for (const Machine& machine : machines()) {
    const System system = parse_xml(describe(machine), "picture");
    pugi::xml_document svg;
    ASSERT_TRUE(svg.load_string(to_svg(system, search(system)).c_str()));
    const pugi::xml_node root = svg.child("svg");
    const std::vector<Label> texts = labels(svg);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      EXPECT_GE(texts[i].left, 0) << texts[i].text;
      EXPECT_LE(texts[i].right, root.attribute("width").as_double()) << texts[i].text;
      EXPECT_LE(texts[i].bottom, root.attribute("height").as_double()) << texts[i].text;
      for (std::size_t j = 0; j < i; ++j) {
        const bool apart = texts[i].right <= texts[j].left || texts[j].right <= texts[i].left ||
                           texts[i].bottom <= texts[j].top || texts[j].bottom <= texts[i].top;
        EXPECT_TRUE(apart) << "'" << texts[i].text << "' lies on '" << texts[j].text << "'";
      }
    }
  }
}

TEST(TopologySvg, ShowsEveryNodeAndRing) {
  const System system = parse_xml(describe(cube_mesh()), "picture");
  const Rings rings = search(system);
  const std::string svg = to_svg(system, rings);
  for (const Node& node : system.nodes) {
    if (node.type == NodeType::kPci) continue;
    EXPECT_NE(svg.find(">" + node.name + "<"), std::string::npos) << node.name;
  }
  EXPECT_NE(svg.find("6 rings, 20 GB/s each, 120 GB/s in all"), std::string::npos);
  // A hop of a ring is an arrow; rings of the same order are drawn once.
  std::size_t arrows = 0;
  for (std::size_t at = 0; (at = svg.find("marker-end", at)) != std::string::npos; ++at) ++arrows;
  EXPECT_EQ(arrows % 8, 0u);
  EXPECT_GE(arrows, 3u * 8);
}

TEST(TopologySvg, NamesCannotBreakTheXml) {
  System system = parse_xml(describe(switched(90)), "picture");
  system.nodes[system.of_type(NodeType::kNic)[0]].name = "<&\"'\x01>";
  pugi::xml_document svg;
  EXPECT_TRUE(svg.load_string(to_svg(system, search(system)).c_str()));
}

TEST(TopologyDot, HasEveryNodeAndBothKindsOfEdges) {
  const System system = parse_xml(describe(cube_mesh()), "picture");
  const std::string dot = to_dot(system, search(system));
  EXPECT_EQ(dot.rfind("digraph machine {", 0), 0u);
  for (std::size_t i = 0; i < system.nodes.size(); ++i) {
    EXPECT_NE(dot.find("  n" + std::to_string(i) + " [label="), std::string::npos);
  }
  EXPECT_NE(dot.find("label=\"NVL 40\""), std::string::npos);
  EXPECT_NE(dot.find("style=dashed"), std::string::npos);
}

}  // namespace
}  // namespace rungs::topology
