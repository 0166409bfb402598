// The public objects: checks of arguments that hold for every provider, then the provider's own.

#include "provider.hpp"
#include "soft/device.hpp"

#include <rungs/core/error.hpp>
#include <rungs/core/suggest.hpp>

#include <array>
#include <string>

namespace rungs::verbs {
namespace {

constexpr std::string_view kSoftName = "soft0";

void check_range(const char* what, std::uint32_t value, std::uint32_t least, std::uint32_t most,
                 const DeviceInfo& device) {
  RUNGS_REQUIRE(value >= least && value <= most, "create_rc: ", what, " ", value, ": ", device.name,
                " takes ", least, " to ", most);
}

}  // namespace

void* MemoryRegion::data() const noexcept { return impl_->data; }
std::size_t MemoryRegion::size_bytes() const noexcept { return impl_->size_bytes; }
std::uint32_t MemoryRegion::lkey() const noexcept { return impl_->lkey; }
std::uint32_t MemoryRegion::rkey() const noexcept { return impl_->rkey; }

Segment MemoryRegion::segment(std::size_t offset_bytes, std::size_t size_bytes) const {
  RUNGS_REQUIRE(offset_bytes <= impl_->size_bytes && size_bytes <= impl_->size_bytes - offset_bytes,
                "segment: bytes ", offset_bytes, " to ", offset_bytes + size_bytes,
                " are outside the region of ", impl_->size_bytes, " bytes");
  RUNGS_REQUIRE(size_bytes <= 0x7fffffff, "segment: ", size_bytes,
                " bytes: one segment has less than 2 GiB");
  return {static_cast<std::byte*>(impl_->data) + offset_bytes,
          static_cast<std::uint32_t>(size_bytes), impl_->lkey};
}

std::size_t CompletionQueue::poll(std::span<Completion> out) noexcept { return impl_->poll(out); }
unsigned CompletionQueue::depth() const noexcept { return impl_->depth(); }
mlx5::RawCompletionQueue CompletionQueue::raw_queue() const { return impl_->raw_queue(); }

Completion CompletionQueue::wait_one(const Deadline& deadline) {
  std::array<Completion, 1> completion;
  Backoff backoff;
  while (poll(completion) == 0) {
    const bool overflowed = impl_->overflowed();
    const bool passed = deadline.passed();
    if (!overflowed && !passed) {
      backoff.pause();
      continue;
    }
    // What was written before the overflow, or while this thread slept past the end, counts.
    if (poll(completion) > 0) break;
    if (overflowed) {
      RUNGS_THROW(kVerbs, "completion queue of ", depth(),
                  " entries overflowed: completions are lost. Poll it more often, or make it as "
                  "deep as all requests that can be under way");
    }
    RUNGS_THROW(kTimeout, "completion queue: no completion, waited ", deadline.waited().count(),
                " s");
  }
  return completion[0];
}

std::uint32_t QueuePair::number() const noexcept { return impl_->number(); }
QpAddress QueuePair::address() const { return impl_->address(); }
void QueuePair::connect(const QpAddress& remote) { impl_->connect(remote); }
PostResult QueuePair::post_send(std::span<const SendRequest> requests) noexcept {
  return impl_->post_send(requests);
}
PostResult QueuePair::post_recv(std::span<const RecvRequest> requests) noexcept {
  return impl_->post_recv(requests);
}
std::size_t QueuePair::send_slots_free() const noexcept { return impl_->send_slots_free(); }
bool QueuePair::failed() const noexcept { return impl_->failed(); }
void QueuePair::fail() noexcept { impl_->fail(); }
mlx5::RawQueuePair QueuePair::raw_queue(mlx5::DoorbellWriter writer) const {
  return impl_->raw_queue(writer);
}

MemoryRegion ProtectionDomain::register_memory(void* data, std::size_t size_bytes, Access access) {
  RUNGS_REQUIRE(data != nullptr, "register_memory: the address is null");
  RUNGS_REQUIRE(size_bytes > 0, "register_memory: the region has 0 bytes");
  RUNGS_REQUIRE(allows(Access::kAll, access), "register_memory: access ",
                static_cast<unsigned>(access), " has unknown bits");
  return MemoryRegion(impl_->register_memory(data, size_bytes, access));
}

QueuePair ProtectionDomain::create_rc(const QueuePairOptions& options) {
  RUNGS_REQUIRE(options.send_cq != nullptr && options.recv_cq != nullptr,
                "create_rc: send_cq and recv_cq must be given (one queue may serve as both)");
  const DeviceInfo& device = impl_->device_info;
  check_range("send_depth", options.send_depth, 1, device.max_queue_depth, device);
  check_range("recv_depth", options.recv_depth, 1, device.max_queue_depth, device);
  check_range("max_segments", options.max_segments, 1, device.max_segments, device);
  check_range("max_inline_bytes", options.max_inline_bytes, 0, device.max_inline_bytes, device);
  check_range("retry_count", options.retry_count, 0, 7, device);
  check_range("rnr_retry_count", options.rnr_retry_count, 0, 7, device);
  return QueuePair(impl_->create_rc(options, options.send_cq->impl_, options.recv_cq->impl_));
}

std::vector<DeviceInfo> Device::list() {
  std::vector<DeviceInfo> devices{soft::describe({})};
  for (DeviceInfo& info : ibverbs::list()) devices.push_back(std::move(info));
  return devices;
}

Device Device::open(std::string_view name) {
  if (name == kSoftName) return open_soft({});
  std::vector<std::string> names;
  for (const DeviceInfo& info : list()) {
    if (info.name == name) return Device(ibverbs::open(name));
    names.push_back(info.name);
  }
  std::string known;
  for (const std::string& one : names) known += (known.empty() ? "" : ", ") + one;
  RUNGS_THROW(kInvalidArgument, "no RDMA device '", name, "' here", did_you_mean(name, names),
              " (there are: ", known, ")");
}

Device Device::open_soft(const SoftOptions& options) { return Device(soft::open(options)); }
const DeviceInfo& Device::info() const noexcept { return impl_->info; }
ProtectionDomain Device::alloc_pd() {
  std::shared_ptr<provider::ProtectionDomain> pd = impl_->alloc_pd();
  pd->device_info = impl_->info;
  return ProtectionDomain(std::move(pd));
}
WireCounters Device::counters() const noexcept { return impl_->counters(); }

CompletionQueue Device::create_cq(unsigned depth) {
  RUNGS_REQUIRE(depth >= 1 && depth <= soft::kMaxCqDepth, "create_cq: depth ", depth,
                ": from 1 to ", soft::kMaxCqDepth);
  return CompletionQueue(impl_->create_cq(depth));
}

}  // namespace rungs::verbs
