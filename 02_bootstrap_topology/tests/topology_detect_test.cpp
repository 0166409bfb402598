/// This machine, and machines whose sysfs is made up in a temporary folder.

#include "topology/host_facts.hpp"

#include <rungs/gpu/device.hpp>
#include <rungs/topology/topology.hpp>

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace rungs::topology {
namespace {

namespace fs = std::filesystem;

class FakeSysfs {
 public:
  FakeSysfs() {
    std::string name =
        ::testing::TempDir() + "/rungs_sysfs_XXXXXX";  // other tests run beside this one
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp: " + name);
    root_ = name;
    fs::create_directories(root_ / "bus/pci/devices");
  }
  ~FakeSysfs() { fs::remove_all(root_); }
  FakeSysfs(const FakeSysfs&) = delete;
  FakeSysfs& operator=(const FakeSysfs&) = delete;

  const fs::path& root() const { return root_; }
  /// A PCI function at a path below devices/, as the kernel lays it out.
  fs::path device(const std::string& path, const std::string& pci_class, const std::string& speed,
                  const std::string& width, const std::string& numa = "0") {
    const fs::path folder = root_ / "devices" / path;
    write(folder / "class", pci_class);
    write(folder / "max_link_speed", speed);
    write(folder / "max_link_width", width);
    write(folder / "numa_node", numa);
    fs::create_directory_symlink(folder, root_ / "bus/pci/devices" / folder.filename());
    return folder;
  }
  void write(const fs::path& file, const std::string& text) {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  void link(const fs::path& from, const fs::path& to) {
    fs::create_directories((root_ / from).parent_path());
    fs::create_directory_symlink(to, root_ / from);
  }

 private:
  fs::path root_;
};

/// A socket with a switch that holds a GPU and a NIC, and a second GPU at the root.
void build(FakeSysfs& sysfs) {
  const std::string root = "pci0000:17/0000:17:01.0";
  const std::string upper = root + "/0000:18:00.0";
  sysfs.device(root, "0x060400", "32.0 GT/s PCIe", "16", "1");
  sysfs.device(upper, "0x060400", "32.0 GT/s PCIe", "16", "1");
  sysfs.device(upper + "/0000:19:00.0", "0x060400", "32.0 GT/s PCIe", "16", "1");
  sysfs.device(upper + "/0000:19:01.0", "0x060400", "32.0 GT/s PCIe", "16", "1");
  sysfs.device(upper + "/0000:19:00.0/0000:1a:00.0", "0x030200", "32.0 GT/s PCIe", "16", "1");
  const fs::path nic =
      sysfs.device(upper + "/0000:19:01.0/0000:1b:00.0", "0x020700", "16.0 GT/s PCIe", "16", "1");
  sysfs.device("pci0000:40/0000:40:01.0", "0x060400", "32.0 GT/s PCIe", "8", "0");
  sysfs.device("pci0000:40/0000:40:01.0/0000:41:00.0", "0x030200", "32.0 GT/s PCIe", "16", "0");
  sysfs.write(nic / "infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)");
  sysfs.write(nic / "infiniband/mlx5_0/sys_image_guid", "506b:4b03:00c0:ffee");
  sysfs.link("class/infiniband/mlx5_0", nic / "infiniband/mlx5_0");
  sysfs.link(fs::relative(nic / "infiniband/mlx5_0/device", sysfs.root()), nic);
  sysfs.write(nic / "net/ib0/speed", "400000");
  sysfs.link("class/net/ib0", nic / "net/ib0");
  sysfs.link(fs::relative(nic / "net/ib0/device", sysfs.root()), nic);
  sysfs.write(sysfs.root() / "class/net/lo/speed", "0");
}

HostFacts two_sockets() {
  HostFacts facts;
  facts.cpus = {{0, "x86_64", "GenuineIntel", 6, 143, "ffff"},
                {1, "x86_64", "GenuineIntel", 6, 143, "ffff0000"}};
  return facts;
}

TEST(TopologyDetect, SysfsGivesSwitchesAndTheNarrowerEndOfALink) {
  FakeSysfs sysfs;
  build(sysfs);
  const auto gpu = read_pci_device(sysfs.root(), {0, 0x1a, 0, 0});
  ASSERT_TRUE(gpu);
  EXPECT_EQ(gpu->numa, 1);
  ASSERT_EQ(gpu->switches.size(), 1u);  // two functions of one switch; the root port is the CPU's
  EXPECT_EQ(to_string(gpu->switches[0].id), "0000:18:00.0");
  const auto other = read_pci_device(sysfs.root(), {0, 0x41, 0, 0});
  ASSERT_TRUE(other);
  EXPECT_EQ(other->link_width, 8);  // 16 lanes in a slot of 8
  EXPECT_TRUE(other->switches.empty());
  EXPECT_FALSE(read_pci_device(sysfs.root(), {0, 0x99, 0, 0}));
}

TEST(TopologyDetect, NetworksOfRdmaDevicesOnceAndNoLoopback) {
  FakeSysfs sysfs;
  build(sysfs);
  const std::vector<NetFacts> nets = read_nets(sysfs.root());
  ASSERT_EQ(nets.size(), 1u);
  EXPECT_EQ(nets[0].name, "mlx5_0");
  EXPECT_EQ(nets[0].mb_per_s, 400000);
  EXPECT_EQ(nets[0].guid, "0x506b4b0300c0ffee");
  ASSERT_TRUE(nets[0].device);
  EXPECT_EQ(to_string(nets[0].device->id), "0000:1b:00.0");
}

TEST(TopologyDetect, FactsBecomeADescription) {
  FakeSysfs sysfs;
  build(sysfs);
  HostFacts facts = two_sockets();
  facts.nets = read_nets(sysfs.root());
  facts.gdr = true;
  GpuFacts gpu;
  gpu.compute_capability = 90;
  gpu.device = read_pci_device(sysfs.root(), {0, 0x1a, 0, 0});
  gpu.nvlinks = {{"0000:41:00.0", "0x030200", 4}, {"0000:77:00.0", "0x030200", 2}};
  facts.gpus.push_back(gpu);
  gpu.dev = 1;
  gpu.device = read_pci_device(sysfs.root(), {0, 0x41, 0, 0});
  gpu.nvlinks = {{"0000:1a:00.0", "0x030200", 4}};
  facts.gpus.push_back(gpu);

  const System system = parse_xml(describe(facts), "fake machine");
  ASSERT_EQ(system.ranks().size(), 2u);
  const Paths paths(system);
  const Path& nvlink = paths.between(system.ranks()[0], system.ranks()[1]);
  EXPECT_EQ(nvlink.type, PathType::kNvl);  // the link to a GPU outside is left out
  EXPECT_DOUBLE_EQ(nvlink.gb_per_s, 4 * 20.6);
  const std::size_t net = system.of_type(NodeType::kNet).at(0);
  EXPECT_EQ(paths.between(system.ranks()[0], net).type, PathType::kPix);
  EXPECT_EQ(paths.between(system.ranks()[0], net).gb_per_s, 24);
  EXPECT_TRUE(system.nodes[net].gdr);
  EXPECT_EQ(parse_xml(to_xml(system), "again"), system);
}

TEST(TopologyDetect, EmulatedGpusAreDealtOutAndSaidToBeEmulated) {
  HostFacts facts = two_sockets();
  for (int dev = 0; dev < 4; ++dev) {
    GpuFacts& gpu = facts.gpus.emplace_back();
    gpu.dev = dev;
    gpu.compute_capability = 90;
    gpu.emulated = true;
  }
  const System system = parse_xml(describe(facts), "emulated");
  ASSERT_EQ(system.ranks().size(), 4u);
  EXPECT_EQ(system.nodes[system.ranks()[2]].name, "GPU 2 (emulated)");
  const Paths paths(system);
  const std::vector<std::size_t> cpus = system.of_type(NodeType::kCpu);
  EXPECT_EQ(paths.between(system.ranks()[1], cpus[0]).type, PathType::kPhb);
  EXPECT_EQ(paths.between(system.ranks()[2], cpus[1]).type, PathType::kPhb);
  EXPECT_EQ(parse_xml(to_xml(system), "again"), system);
}

TEST(TopologyDetect, ThisMachine) {
  const System system = detect();
  EXPECT_FALSE(system.of_type(NodeType::kCpu).empty());
  EXPECT_EQ(system.of_type(NodeType::kGpu).size(), static_cast<std::size_t>(gpu::Device::count()));
  for (const std::size_t gpu : system.of_type(NodeType::kGpu)) {
    EXPECT_EQ(system.nodes[gpu].emulated, RUNGS_GPU_CUDA == 0);
  }
  if (system.ranks().empty()) GTEST_SKIP() << "this machine has no GPU that CUDA can use";
  EXPECT_EQ(parse_xml(to_xml(system), "again"), system);
  EXPECT_EQ(overload(system, search(system)), "");
}

}  // namespace
}  // namespace rungs::topology
