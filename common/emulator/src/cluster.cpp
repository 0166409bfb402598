#include "cluster.hpp"

#include "sanitizer.hpp"
#include "trace_hooks.hpp"
#include "worker.hpp"

#include <utility>

namespace rungs::emulator {
namespace {

// Runs a landing under its own TSan identity, so that races with asynchronous engines become
// visible.
class EngineScope {
 public:
  explicit EngineScope(void* engine) {
    if (engine == nullptr) return;
    previous_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(engine, 1);
    sanitizer::ignore(true);
  }
  ~EngineScope() {
    if (previous_ == nullptr) return;
    sanitizer::ignore(false);
    __tsan_switch_to_fiber(previous_, 1);
  }
  EngineScope(const EngineScope&) = delete;
  EngineScope& operator=(const EngineScope&) = delete;

 private:
  void* previous_ = nullptr;
};

void land(Cluster& cluster, const AsyncOperation& operation) {
  const EngineScope scope(operation.engine);
  if (operation.issue_token != nullptr) sanitizer::acquire(operation.issue_token.get());
  this_worker->progress++;
  const trace::Landing traced(cluster, operation);
  operation.landing->land(cluster, operation);
}

}  // namespace

void Cluster::load(Launch& new_launch, std::uint64_t index) {
  launch = &new_launch;
  const gpu::LaunchConfig& config = new_launch.request->config;
  generation = 0;
  members.resize(blocks.size());
  for (BlockInCluster& member : members) {
    member.arrived.clear();
    member.aligned.clear();
    member.triggered = false;
    member.registers.clear();
    member.exchanges.clear();
    member.waiting_for_registers.clear();
  }
  operations.clear();
  early.clear();
  first_operation = 0;
  operation_ids = 0;
  random =
      (new_launch.options.seed * 0x9e3779b97f4a7c15ull) ^ ((index + 1) * 0xd1b54a32d192ed03ull);
  if (random == 0) random = 1;

  const std::uint64_t across = config.grid.x / config.cluster.x;
  const std::uint64_t down = config.grid.y / config.cluster.y;
  const std::uint64_t x = index % across * config.cluster.x;
  const std::uint64_t y = index / across % down * config.cluster.y;
  const std::uint64_t z = index / across / down * config.cluster.z;
  for (unsigned r = 0; r < blocks.size(); r++) {
    const Index3 at{static_cast<unsigned>(x) + r % config.cluster.x,
                    static_cast<unsigned>(y) + r / config.cluster.x % config.cluster.y,
                    static_cast<unsigned>(z) + r / config.cluster.x / config.cluster.y};
    blocks[r]->load(new_launch, *this, r, at);
  }
  live = new_launch.threads_per_block * static_cast<unsigned>(blocks.size());
  missing = live;
}

bool Cluster::has_ready() const {
  for (const auto& block : blocks) {
    if (block->has_ready()) return true;
  }
  return false;
}

bool Cluster::has_spinning() const {
  for (const auto& block : blocks) {
    if (block->has_spinning()) return true;
  }
  return false;
}

void Cluster::rearm() {
  for (const auto& block : blocks) block->ready.take(block->spinning, block->word_count);
}

void Cluster::submit(AsyncOperation operation) {
  trace::issued(operation);
  if (sanitizer::thread_sanitizer()) {
    operation.engine = this_worker->next_engine();
    operation.issue_token = std::make_unique<char>();
    sanitizer::release(operation.issue_token.get());
  }
  if (launch->options.async == Async::kEarly) {
    early.push_back(std::move(operation));  // not on the thread's stack: a report never returns
    land(*this, early.back());
    early.pop_back();
    return;
  }
  operations.push_back(std::move(operation));
}

void Cluster::land_one(bool at_random) {
  std::size_t i = first_operation;
  if (!at_random) {
    // Copies later than multiplications: a multiplication that should have waited for a copy then
    // meets it.
    for (std::size_t j = i; j < operations.size(); j++) {
      if (operations[j].kind != AsyncOperation::Kind::kMultiplication) continue;
      i = j;
      break;
    }
  } else {
    i += next_random() % (operations.size() - first_operation);
    for (std::size_t j = first_operation; j < i; j++) {
      if (operations[j].stream == operations[i].stream) i = j;
    }
  }
  const AsyncOperation operation = std::move(operations[i]);
  if (i != first_operation)
    operations.erase(operations.begin() + static_cast<std::ptrdiff_t>(i));
  else
    first_operation++;
  if (first_operation == operations.size()) {
    operations.clear();
    first_operation = 0;
  }
  land(*this, operation);
}

}  // namespace rungs::emulator
