// GPU peer memory: the slots lie in the receiver's GPU memory, the sender's copy engine writes them
// and the receiver's copies them to their place. The flags lie in host memory: a copy is published
// when its event was reached, so no kernel has to poll.
//
// Cost: two device copies a byte, one of them across the link between the GPUs; an event a piece.

#include "carriers/carriers.hpp"
#include "carriers/slot_control.hpp"
#include "detail/context_state.hpp"

#include <rungs/gpu/buffer.hpp>
#include <rungs/gpu/peer.hpp>

#include <unistd.h>

#include <cstdint>
#include <utility>

namespace rungs::transport::detail {
namespace {

struct SlotBuffer {
  gpu::Device device;
  gpu::Buffer<std::byte> bytes;
};

struct DeviceNote {
  std::int32_t ordinal;
  std::int32_t emulated;
  std::uint64_t size_bytes;
  std::uint64_t offset_bytes;
};

// The peer's slots as this rank's device sees them.
struct PeerSlots {
  std::byte* data;
  std::shared_ptr<void> keep;
};

PeerSlots exchange_slots(SetUp& set_up, const gpu::Device& device,
                         const std::shared_ptr<SlotBuffer>& mine) {
  if (set_up.same_process()) {
    const auto theirs = std::static_pointer_cast<SlotBuffer>(set_up.exchange_object(mine));
    if (theirs->device.ordinal() != device.ordinal()) device.enable_peer_access(theirs->device);
    return {theirs->bytes.data(), theirs};
  }
  gpu::ExportedMemory exported = gpu::export_memory(device, mine->bytes.data());
  try {
    const DeviceNote note{device.ordinal(), device.info().emulated ? 1 : 0, exported.size_bytes,
                          exported.offset_bytes};
    const DeviceNote theirs = set_up.exchange(note);
    RUNGS_REQUIRE(note.emulated == theirs.emulated, "connect: rank ", set_up.peer(), " has ",
                  theirs.emulated ? "an emulated" : "a real", " device, this rank ",
                  note.emulated ? "an emulated" : "a real", " one");
    gpu::ExportedMemory imported;
    imported.size_bytes = theirs.size_bytes;
    imported.offset_bytes = theirs.offset_bytes;
    imported.fd = set_up.exchange_fd(exported.fd);
    ::close(exported.fd);
    exported.fd = -1;
    std::shared_ptr<gpu::PeerMapping> mapping;
    try {
      mapping = std::make_shared<gpu::PeerMapping>(device, imported);
    } catch (...) {
      ::close(imported.fd);
      throw;
    }
    ::close(imported.fd);
    return {static_cast<std::byte*>(mapping->data()), mapping};
  } catch (...) {
    if (exported.fd >= 0) ::close(exported.fd);
    throw;
  }
}

}  // namespace

Ends connect_gpu_peer(SetUp& set_up) {
  const gpu::Device& device = *set_up.context().device();
  const std::size_t stride = slot_stride(set_up.options().slot_bytes);
  const auto control = SharedMapping::create(control_bytes());
  const auto peer_control = exchange_mapping(set_up, control, control_bytes());
  const auto buffer = std::make_shared<SlotBuffer>(SlotBuffer{
      device, gpu::Buffer<std::byte>(device, set_up.slots() * stride, gpu::Space::kShared)});
  const PeerSlots peer = exchange_slots(set_up, device, buffer);

  const auto memory = [&](const std::shared_ptr<SharedMapping>& flags, std::byte* payload,
                          std::shared_ptr<void> keep) {
    SlotMemory slots;
    slots.control = reinterpret_cast<SlotControl*>(flags->data());
    slots.payload = payload;
    slots.stride_bytes = stride;
    slots.slots = set_up.slots();
    slots.keep_control = flags;
    slots.keep_payload = std::move(keep);
    slots.copies = std::make_unique<StreamCopies>(device);
    return slots;
  };
  return {std::make_unique<SlotOutlet>(memory(peer_control, peer.data, peer.keep)),
          std::make_unique<SlotInlet>(memory(control, buffer->bytes.data(), buffer))};
}

}  // namespace rungs::transport::detail
