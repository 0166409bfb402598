#include "carriers/verbs_hca.hpp"

#include "detail/context_state.hpp"

#include <rungs/core/error.hpp>

#include <algorithm>
#include <utility>

namespace rungs::transport::detail {

Hca::Hca(const verbs::Device& device)
    : device_(device),
      domain_(device_.alloc_pd()),
      keeps_(device_.info().provider == "soft") {}

std::shared_ptr<verbs::MemoryRegion> Hca::registered(const Region& region, verbs::Access access) {
  const std::lock_guard lock(mutex_);
  entries_.remove_if([](const Entry& entry) { return entry.used.expired(); });
  const auto same = [&](const Entry& entry) {
    return entry.access == access && entry.data <= region.data &&
           entry.data + entry.size_bytes >= region.data + region.size_bytes;
  };
  const auto found = std::find_if(entries_.begin(), entries_.end(), same);
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
    return entries_.front().used.lock();
  }
  // A source is registered for reading only; verbs take void* for both.
  const auto made = std::make_shared<verbs::MemoryRegion>(
      domain_.register_memory(const_cast<std::byte*>(region.data), region.size_bytes, access));
  entries_.push_front({region.data, region.size_bytes, access, made, keeps_ ? made : nullptr});
  std::size_t kept = 0;
  for (Entry& entry : entries_) {
    if (entry.kept != nullptr && ++kept > kIdle) entry.kept.reset();
  }
  return made;
}

RegisteredMemory::RegisteredMemory(Hca& hca, std::size_t size_bytes, verbs::Access access)
    : memory_(std::make_unique<std::byte[]>(size_bytes)),
      region_(hca.domain().register_memory(memory_.get(), size_bytes, access)) {}

void post(verbs::QueuePair& pair, std::span<const verbs::SendRequest> requests) {
  const verbs::PostResult result = pair.post_send(requests);
  if (result.posted == requests.size()) return;
  RUNGS_THROW(kVerbs, "post_send: ", verbs::to_string(result.error),
              pair.failed() ? " (the queue pair has failed)" : "");
}

void post(verbs::QueuePair& pair, const verbs::RecvRequest& request) {
  const verbs::PostResult result = pair.post_recv(request);
  if (result.posted != 1) RUNGS_THROW(kVerbs, "post_recv: ", verbs::to_string(result.error));
}

Error completion_error(const verbs::Completion& completion) {
  if (completion.status == verbs::Status::kRetryExceeded) {
    return {ErrorCode::kPeerLost,
            concat("no answer from the peer's HCA: ", verbs::to_string(completion.status)),
            __FILE__, __LINE__};
  }
  return {ErrorCode::kVerbs,
          concat(verbs::to_string(completion.opcode), ": ", verbs::to_string(completion.status)),
          __FILE__, __LINE__};
}

std::shared_ptr<Hca> ContextState::hca(const std::string& name) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Hca>& known = hcas_[name];
  if (known == nullptr) known = std::make_shared<Hca>(verbs::Device::open(name));
  return known;
}

void ContextState::add_hca(const std::string& name, const verbs::Device& device) {
  const std::lock_guard lock(mutex_);
  RUNGS_REQUIRE(hcas_.find(name) == hcas_.end() || hcas_[name] == nullptr,
                "add_verbs_device: the context has a device called '", name, "' already");
  hcas_[name] = std::make_shared<Hca>(device);
}

}  // namespace rungs::transport::detail
