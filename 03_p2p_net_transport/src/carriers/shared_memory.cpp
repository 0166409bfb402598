// Shared memory: the receiver makes a memfd with the control block and the slots, the sender maps
// it. Two ranks of one process share the mapping itself.
//
// Cost: two memcpys a byte, in two threads.

#include "carriers/carriers.hpp"
#include "carriers/slot_control.hpp"
#include "detail/shared_mapping.hpp"

#include <utility>

namespace rungs::transport::detail {

Ends connect_shared_memory(SetUp& set_up) {
  const std::size_t stride = slot_stride(set_up.options().slot_bytes);
  const std::size_t slots_at = control_bytes();
  const std::size_t size = slots_at + set_up.slots() * stride;
  const auto memory = [&](std::shared_ptr<SharedMapping> mapping) {
    SlotMemory slots;
    slots.control = reinterpret_cast<SlotControl*>(mapping->data());
    slots.payload = mapping->data() + slots_at;
    slots.stride_bytes = stride;
    slots.slots = set_up.slots();
    slots.copies = std::make_unique<HostCopies>();
    slots.keep_control = std::move(mapping);
    return slots;
  };
  const std::shared_ptr<SharedMapping> mine = SharedMapping::create(size);
  const std::shared_ptr<SharedMapping> theirs = exchange_mapping(set_up, mine, size);
  return {std::make_unique<SlotOutlet>(memory(theirs)), std::make_unique<SlotInlet>(memory(mine))};
}

}  // namespace rungs::transport::detail
