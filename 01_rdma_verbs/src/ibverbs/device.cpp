// Devices that rdma-core knows: a ConnectX, or Linux's own software one (rxe).

#include "ibverbs/objects.hpp"

#include <rungs/core/env.hpp>
#include <rungs/core/error.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace rungs::verbs::ibverbs {
namespace {

constexpr std::uint32_t kInlineBytes = 220;  // what mlx5 and rxe take beside a few segments

// The devices, closed.
class DeviceList {
 public:
  DeviceList() : devices_(ibv_get_device_list(&count_)) {}
  ~DeviceList() {
    if (devices_ != nullptr) ibv_free_device_list(devices_);
  }
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;
  [[nodiscard]] std::span<ibv_device* const> all() const {
    if (devices_ == nullptr) return {};
    return {devices_, static_cast<std::size_t>(count_)};
  }

 private:
  int count_ = 0;
  ibv_device** devices_;
};

bool is_mapped_ipv4(const ibv_gid& gid) {
  constexpr std::array<std::uint8_t, 12> kPrefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::equal(kPrefix.begin(), kPrefix.end(), gid.raw);
}

// RoCE names a port by one of several Gids: the first of RoCE v2 with an IPv4 address, else the
// first of RoCE v2, else number 0. RUNGS_GID_INDEX overrides.
void choose_gid(Context& context) {
  constexpr std::size_t kMostGids = 256;
  std::vector<ibv_gid_entry> table(kMostGids);
  const ssize_t count = ibv_query_gid_table(context.handle.get(), table.data(), table.size(), 0);
  table.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  const std::int64_t wanted = env::integer("RUNGS_GID_INDEX", -1, -1, kMostGids);
  int best = -1;
  for (const ibv_gid_entry& entry : table) {
    if (entry.port_num != kPort) continue;
    int score = 0;
    if (entry.gid_type == IBV_GID_TYPE_ROCE_V2) score = is_mapped_ipv4(entry.gid) ? 2 : 1;
    if (wanted >= 0) score = entry.gid_index == wanted ? 3 : -1;
    if (score <= best) continue;
    best = score;
    context.gid_index = static_cast<int>(entry.gid_index);
    std::memcpy(context.gid.data(), entry.gid.raw, context.gid.size());
  }
  RUNGS_REQUIRE(wanted < 0 || best == 3, "RUNGS_GID_INDEX ", wanted, ": port 1 of ",
                context.info.name, " has no Gid of that number");
}

std::shared_ptr<Context> open_context(ibv_device* device) {
  auto context = std::make_shared<Context>();
  context->info.name = ibv_get_device_name(device);
  context->info.provider = "ibverbs";
  context->handle = Handle<ibv_context, ibv_close_device>(ibv_open_device(device));
  if (!context->handle) {
    fail(*context, "ibv_open_device", errno,
         "; /dev/infiniband/uverbs* must be readable and writable");
  }
  ibv_context* const handle = context->handle.get();
  if (const int reason = ibv_query_device(handle, &context->limits)) {
    fail(*context, "ibv_query_device", reason);
  }
  if (const int reason = ibv_query_port(handle, kPort, &context->port)) {
    fail(*context, "ibv_query_port", reason);
  }
  choose_gid(*context);
  DeviceInfo& info = context->info;
  info.wire = context->is_ethernet() ? "RoCE v2" : "InfiniBand";
  info.emulated = info.name.starts_with("rxe") || info.name.starts_with("siw");
  info.max_queue_depth = static_cast<std::uint32_t>(context->limits.max_qp_wr);
  info.max_segments = static_cast<std::uint32_t>(context->limits.max_sge);
  info.max_inline_bytes = kInlineBytes;
  info.mtu_bytes = 128u << context->port.active_mtu;  // IBV_MTU_256 is 1
  return context;
}

class MemoryRegion final : public provider::MemoryRegion {
 public:
  MemoryRegion(std::shared_ptr<ProtectionDomainHandle> pd, void* memory, std::size_t bytes,
               Access access)
      : pd_(std::move(pd)) {
    int flags = 0;
    // What the peer may write, the specification wants writable locally, too.
    const auto writable = Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteAtomic;
    if ((static_cast<unsigned>(access) & static_cast<unsigned>(writable)) != 0) {
      flags |= IBV_ACCESS_LOCAL_WRITE;
    }
    if (allows(access, Access::kRemoteWrite)) flags |= IBV_ACCESS_REMOTE_WRITE;
    if (allows(access, Access::kRemoteRead)) flags |= IBV_ACCESS_REMOTE_READ;
    if (allows(access, Access::kRemoteAtomic)) flags |= IBV_ACCESS_REMOTE_ATOMIC;
    handle_ = Handle<ibv_mr, ibv_dereg_mr>(ibv_reg_mr(pd_->handle.get(), memory, bytes, flags));
    if (!handle_) {
      fail(*pd_->context, "ibv_reg_mr", errno, "; pinned memory is limited by `ulimit -l`");
    }
    data = memory;
    size_bytes = bytes;
    lkey = handle_->lkey;
    rkey = handle_->rkey;
  }

 private:
  std::shared_ptr<ProtectionDomainHandle> pd_;
  Handle<ibv_mr, ibv_dereg_mr> handle_;
};

class ProtectionDomain final : public provider::ProtectionDomain {
 public:
  explicit ProtectionDomain(std::shared_ptr<Context> context)
      : pd_(std::make_shared<ProtectionDomainHandle>()) {
    pd_->context = std::move(context);
    pd_->handle = Handle<ibv_pd, ibv_dealloc_pd>(ibv_alloc_pd(pd_->context->handle.get()));
    if (!pd_->handle) fail(*pd_->context, "ibv_alloc_pd", errno);
  }
  std::shared_ptr<provider::MemoryRegion> register_memory(void* data, std::size_t size_bytes,
                                                          Access access) override {
    return std::make_shared<MemoryRegion>(pd_, data, size_bytes, access);
  }
  std::shared_ptr<provider::QueuePair> create_rc(
      const QueuePairOptions& options, std::shared_ptr<provider::CompletionQueue> send_cq,
      std::shared_ptr<provider::CompletionQueue> recv_cq) override {
    auto send = std::dynamic_pointer_cast<CompletionQueue>(std::move(send_cq));
    auto recv = std::dynamic_pointer_cast<CompletionQueue>(std::move(recv_cq));
    RUNGS_REQUIRE(send && recv, "create_rc: the completion queues are of another provider");
    return std::make_shared<QueuePair>(pd_, options, std::move(send), std::move(recv));
  }

 private:
  std::shared_ptr<ProtectionDomainHandle> pd_;
};

class Device final : public provider::Device {
 public:
  explicit Device(std::shared_ptr<Context> context) : context_(std::move(context)) {
    info = context_->info;
  }
  std::shared_ptr<provider::ProtectionDomain> alloc_pd() override {
    return std::make_shared<ProtectionDomain>(context_);
  }
  std::shared_ptr<provider::CompletionQueue> create_cq(unsigned depth) override {
    return std::make_shared<CompletionQueue>(context_, depth);
  }

 private:
  std::shared_ptr<Context> context_;
};

}  // namespace

void fail(const Context& context, const char* call, int reason, const char* advice) {
  RUNGS_THROW(kVerbs, context.info.name, ": ", call, ": ", std::strerror(reason), advice);
}

std::vector<DeviceInfo> list() {
  const DeviceList devices;
  std::vector<DeviceInfo> result;
  for (ibv_device* const device : devices.all()) {
    try {
      result.push_back(open_context(device)->info);
    } catch (const Error&) {
      // Listed all the same: open() says why it cannot be used.
      DeviceInfo& info = result.emplace_back();
      info.name = ibv_get_device_name(device);
      info.provider = "ibverbs";
      info.wire = "cannot be opened";
    }
  }
  return result;
}

std::shared_ptr<provider::Device> open(std::string_view name) {
  const DeviceList devices;
  for (ibv_device* const device : devices.all()) {
    if (name == ibv_get_device_name(device)) return std::make_shared<Device>(open_context(device));
  }
  RUNGS_THROW(kVerbs, "device \"", name, "\": rdma-core finds ",
              devices.all().empty() ? "no RDMA device at all" : "none of that name",
              " (/sys/class/infiniband). A software one is made by `rdma link add rxe0 type rxe "
              "netdev eth0`, which needs the kernel module rdma_rxe; \"soft0\" is always there");
}

}  // namespace rungs::verbs::ibverbs
