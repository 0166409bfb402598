#include <rungs/core/error.hpp>
#include <rungs/gpu/buffer.hpp>
#include <rungs/gpu/stream.hpp>

#include <mutex>
#include <utility>
#include <vector>

namespace rungs::gpu::detail {
namespace {

// Reachable and never destroyed: a leak checker sees that it is meant, and a copy that ends while
// the process does still finds it.
void keep(std::shared_ptr<void> memory) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::shared_ptr<void>>;
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(memory));
}

}  // namespace

void synchronize_or_keep(std::shared_ptr<void> memory, StreamHandle stream,
                         const Deadline& deadline) {
  try {
    synchronize(stream, deadline);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kTimeout) keep(std::move(memory));
    throw;
  }
}

}  // namespace rungs::gpu::detail
