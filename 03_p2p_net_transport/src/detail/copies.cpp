#include "detail/copies.hpp"

#include <rungs/core/error.hpp>
#include <rungs/core/log.hpp>

#include <chrono>
#include <cstring>
#include <utility>

namespace rungs::transport::detail {

void HostCopies::begin(void* to, const void* from, std::size_t size_bytes, const gpu::Event*) {
  if (size_bytes > 0) std::memcpy(to, from, size_bytes);
}

StreamCopies::StreamCopies(const gpu::Device& device) : device_(device), stream_(device) {}

void StreamCopies::finish() noexcept {
  if (under_way_.empty()) return;
  try {
    stream_.synchronize(Deadline::after(std::chrono::seconds(10)));
  } catch (const Error& error) {
    log::warn("transport: a link stops while its GPU still copies: ", error.message());
  }
}

void StreamCopies::begin(void* to, const void* from, std::size_t size_bytes,
                         const gpu::Event* after) {
  if (after != nullptr) after->wait_on(stream_);
  if (size_bytes > 0) gpu::copy_async(to, from, size_bytes, stream_);
  if (spare_.empty()) spare_.emplace_back(device_);
  gpu::Event event = std::move(spare_.back());
  spare_.pop_back();
  event.record(stream_);
  under_way_.push_back(std::move(event));
}

bool StreamCopies::oldest_done() {
  try {
    under_way_.front().synchronize(Deadline::after(std::chrono::seconds(0)));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kTimeout) return false;
    throw;
  }
  spare_.push_back(std::move(under_way_.front()));
  under_way_.pop_front();
  return true;
}

}  // namespace rungs::transport::detail
