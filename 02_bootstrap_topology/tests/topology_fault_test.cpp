/// How a broken description is refused: with file, line, column and reason.

#include "topology_text.hpp"

#include <rungs/core/error.hpp>
#include <rungs/topology/topology.hpp>

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

namespace rungs::topology {
namespace {

std::string complaint(const std::string& xml) {
  try {
    (void)parse_xml(xml, "m.xml");
    return "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.message();
  }
}

/// A device with the given speed, width and contents.
std::string device(
    const std::string& bus, const std::string& inside,
    const std::string& more = "class=\"0x030200\" link_speed=\"\" link_width=\"0\"") {
  return "<pci busid=\"0000:" + bus + ":00.0\" " + more + ">" + inside + "</pci>";
}

/// Each fault with an @ where the message must point; the @ is not part of the description.
struct Fault {
  std::string marked;
  std::string reason;
};
void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.reason; }

class TopologyXmlFault : public ::testing::TestWithParam<Fault> {};

TEST_P(TopologyXmlFault, NamesLineColumnAndReason) {
  std::string xml;
  std::string position;
  int line = 1;
  int column = 1;
  for (const char c : GetParam().marked) {
    if (c == '@') {
      position = std::to_string(line) + ":" + std::to_string(column);
      continue;
    }
    xml += c;
    column = c == '\n' ? 1 : column + 1;
    line += c == '\n' ? 1 : 0;
  }
  ASSERT_NE(position, "");
  EXPECT_EQ(complaint(xml), "m.xml:" + position + ": " + GetParam().reason) << xml;
}

const std::vector<Fault> kNoXml = {
    {"@", "no <system> element"},
    {"@hello", "text outside of <system>"},
    {"<system>\n<cp@u", "broken XML: Error parsing start element tag"},
    {"<system>\n</@sytem>", "broken XML: Start-end tags mismatch"},
    {std::string("<system>\n@\0</system>", 20), "a NUL byte: this is no XML text"},
    {on_cpu(kGpu0) + "@<system/>", "a second <system>; a description has one"},
};

const std::vector<Fault> kElements = {
    {"@<machine/>", "unknown element <machine>; a description begins with <system>"},
    {on_cpu("    @<gpu dev=\"0\" sm=\"80\"/>"),
     "unknown element <gpu> in <cpu>, which may hold <pci> <nic>"},
    {on_cpu("@words"), "text inside <cpu>"},
    {"@" + on_cpu(""),
     "no GPU in this description: neither a <gpu> nor a device of class 0x03...."},
    {on_cpu(device("01", "<gpu dev=\"0\" sm=\"80\"/>@<nic/>")),
     "<nic> beside <gpu>: a device holds one GPU or one NIC"},
    {on_cpu(device("01", "<gpu dev=\"0\" sm=\"80\"/>@<gpu dev=\"1\" sm=\"80\"/>")),
     "<gpu> beside <gpu>: a device holds one GPU or one NIC"},
};

const std::vector<Fault> kAttributes = {
    {"<system>@<cpu arch=\"x86_64\"/></system>", "<cpu> has no attribute 'numaid'"},
    {"<system><cpu @numaid=\"one\"/></system>", "numaid='one' is not a number"},
    {"<system>@<cpu numaid=\"0\" arch=\"x86_64\" vendor=\"GenuineIntel\"/></system>",
     "<cpu> has no attribute 'familyid'"},
    {on_cpu("@<pci class=\"0x060400\" link_speed=\"8 GT/s\" link_width=\"16\"/>"),
     "<pci> has no attribute 'busid'"},
    {on_cpu("<pci  @busid=\"1:2\" class=\"0x060400\" link_speed=\"8 GT/s\" link_width=\"16\"/>"),
     "busid='1:2' is no PCI bus id such as 0000:3b:00.0"},
    {on_cpu(device("01", "", "@class=\"gpu\" link_speed=\"8 GT/s\" link_width=\"16\"")),
     "class='gpu' is no PCI class such as 0x060400"},
    {on_cpu(device("01", "", "class='0x060400'\n@link_speed=\"fast\" link_width=\"16\"")),
     "link_speed='fast' is none of 2.5, 5, 8, 16, 32 and 64 GT/s"},
    {on_cpu(device("01", "", "class=\"0x060400\" link_speed=\"\" @link_width=\"-1\"")),
     "link_width=-1 is not in 0..255"},
    {on_cpu(device("01", "@<gpu dev=\"0\"/>")), "<gpu> has no attribute 'sm'"},
    {on_cpu(device("01", "<gpu dev=\"0\" @sm=\"99999999999\"/>")),
     "sm='99999999999' is not a number"},
};

const std::string kGpuColumn = std::to_string(kGpu0.find("<gpu") + 1);

const std::vector<Fault> kTwice = {
    {on_cpu(kGpu0 + "\n<pci @" + kGpu0.substr(5)),
     "bus id 0000:01:00.0 occurs twice; first at 3:1"},
    {on_cpu(kGpu0 + "\n" + device("02", "<gpu dev=\"1\" sm=\"80\" @rank=\"0\"/>")),
     "rank 0 occurs twice; first at 3:" + kGpuColumn},
    {on_cpu(kGpu0 + "\n" + device("02", "<gpu @dev=\"0\" sm=\"80\" rank=\"1\"/>")),
     "GPU 0 occurs twice; first at 3:" + kGpuColumn},
    {"<system><cpu numaid=\"0\" arch=\"arm64\"/><cpu @numaid=\"0\" arch=\"arm64\"/></system>",
     "NUMA node 0 occurs twice; first at 1:9"},
    {"<system><cpu numaid=\"0\" arch=\"arm64\" host_hash=\"0x1\"/>"
     "<cpu numaid=\"1\" arch=\"arm64\" @host_hash=\"0x2\"/></system>",
     "a second host; one description is read for each machine"},
};

std::string with_nvlink(const std::string& attributes, const char* mark = "") {
  return device(
      "01", "<gpu dev=\"0\" sm=\"80\">" + std::string(mark) + "<nvlink " + attributes + "/></gpu>");
}

const std::vector<Fault> kLinks = {
    {on_cpu(with_nvlink("@target=\"0000:09:00.0\" count=\"1\" tclass=\"0x030200\"")),
     "a link to nothing: no GPU 0000:09:00.0 in this description. If the job does not use that "
     "GPU, "
     "delete this <nvlink>"},
    {on_cpu(with_nvlink("@target=\"nowhere\" count=\"1\" tclass=\"0x030200\"")),
     "target='nowhere' is no PCI bus id"},
    {on_cpu(with_nvlink("@target=\"0000:01:00.0\" count=\"1\" tclass=\"0x030200\"")),
     "an NVLink from a GPU to itself"},
    {on_cpu(with_nvlink("target=\"0000:01:00.0\" @count=\"0\" tclass=\"0x030200\"")),
     "count=0 is not in 1..1024"},
    {on_cpu(with_nvlink("target=\"0000:01:00.0\" count=\"1\" @tclass=\"0x020000\"")),
     "tclass='0x020000' is neither a GPU (0x030200) nor an NVSwitch (0x068000)"},
    {on_cpu(with_nvlink("target=\"0000:02:00.0\" count=\"1\" tclass=\"0x030200\"", "@") + "\n" +
            device("02", "<gpu dev=\"1\" sm=\"80\"/>")),
     "an NVLink without a way back: 0000:02:00.0 names none to 0000:01:00.0"},
};

INSTANTIATE_TEST_SUITE_P(NoXml, TopologyXmlFault, ::testing::ValuesIn(kNoXml));
INSTANTIATE_TEST_SUITE_P(Elements, TopologyXmlFault, ::testing::ValuesIn(kElements));
INSTANTIATE_TEST_SUITE_P(Attributes, TopologyXmlFault, ::testing::ValuesIn(kAttributes));
INSTANTIATE_TEST_SUITE_P(Twice, TopologyXmlFault, ::testing::ValuesIn(kTwice));
INSTANTIATE_TEST_SUITE_P(Links, TopologyXmlFault, ::testing::ValuesIn(kLinks));

TEST(TopologyXml, SizeAndDepthHaveLimits) {
  EXPECT_NE(complaint(std::string((std::size_t{4} << 20) + 1, ' ')).find("bytes; one of a machine"),
            std::string::npos);
  std::string deep;
  for (int i = 0; i < 100; ++i) {
    deep += "<pci busid=\"" + std::to_string(1000 + i) +
            ":00:00.0\" class=\"0x060400\" link_speed=\"\" link_width=\"0\">";
  }
  for (int i = 0; i < 100; ++i) deep += "</pci>";
  EXPECT_NE(complaint(on_cpu(deep)).find("nested more than 32 deep"), std::string::npos);
  std::string wide;
  for (int i = 0; i < 600; ++i) {
    wide += "<pci busid=\"" + std::to_string(1000 + i) +
            ":00:00.0\" class=\"0x060400\" link_speed=\"\" link_width=\"0\"/>";
  }
  EXPECT_NE(complaint(on_cpu(wide)).find("more than 512 nodes"), std::string::npos);
  // Very deep nesting of anything must not end in a stack overflow.
  std::string elements;
  for (int i = 0; i < 100000; ++i) elements += "<a>";
  EXPECT_NE(complaint(elements), "accepted");
}

TEST(TopologyXml, AFileThatCannotBeReadIsASystemError) {
  for (const std::string path : {"/nowhere/machine.xml", "/tmp"}) {
    try {
      (void)read_xml(path);
      FAIL() << "read " << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kSystem);
      EXPECT_EQ(error.message(), path + ": cannot be read; name a file in NCCL's topology schema");
    }
  }
}

}  // namespace
}  // namespace rungs::topology
