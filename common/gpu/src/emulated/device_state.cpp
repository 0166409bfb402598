#include "device_state.hpp"

#include "settings.hpp"
#include "stream_state.hpp"

#include <rungs/core/error.hpp>

#include <pthread.h>

#include <array>
#include <utility>

namespace rungs::gpu::detail {
namespace {

constexpr std::size_t kSharedBytesPerBlock = 232448;  // Hopper, with opt-in
constexpr std::size_t kL2Bytes = std::size_t{50} << 20;

std::string device_name(int ordinal) { return concat("emulated device ", ordinal); }

DeviceInfo describe(int ordinal) {
  DeviceInfo info;
  info.name = concat("emulated Hopper SM x", emulated_sms());
  info.ordinal = ordinal;
  info.emulated = true;
  info.sm_count = emulated_sms();
  info.compute_major = 9;
  info.memory_bytes = emulated_memory_bytes();
  info.l2_bytes = kL2Bytes;
  info.shared_bytes_per_block = kSharedBytesPerBlock;
  return info;
}

struct Registry {
  std::mutex mutex;
  std::array<std::atomic<DeviceState*>, kMaxDevices> devices{};
};

// Counts the fork()s this process descends from.
std::atomic<unsigned long> generation =
    0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

// Leaked on purpose, by the process at its exit and by a child after fork().
std::atomic<Registry*>& registry_slot() {
  static std::atomic<Registry*> slot = [] {
    pthread_atfork(nullptr, nullptr, [] {
      generation.fetch_add(1);
      registry_slot().store(new Registry);
    });
    return new Registry;
  }();
  return slot;
}

Registry& registry() { return *registry_slot().load(std::memory_order_acquire); }

thread_local int current_ordinal = 0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

}  // namespace

DeviceState::DeviceState(int ordinal)
    : info_(describe(ordinal)),
      arena_(device_name(ordinal), info_.memory_bytes),
      executor_({info_.sm_count, emulator_workers()}),
      default_stream_(std::make_shared<StreamState>(*this, "the default stream")),
      generation_(generation.load()) {}

DeviceState& DeviceState::get(int ordinal) {
  Registry& all = registry();
  if (ordinal >= 0 && ordinal < kMaxDevices) {
    if (DeviceState* device = all.devices[ordinal].load(std::memory_order_acquire)) return *device;
  }
  const int count = emulated_devices();
  RUNGS_REQUIRE(ordinal >= 0 && ordinal < count, "device ", ordinal, " does not exist: there are ",
                count, " emulated devices (RUNGS_EMULATED_DEVICES)");
  const std::lock_guard lock(all.mutex);
  std::atomic<DeviceState*>& slot = all.devices[ordinal];
  if (slot.load() == nullptr) slot.store(new DeviceState(ordinal), std::memory_order_release);
  return *slot.load();
}

DeviceState* DeviceState::owner_of(const void* pointer) {
  for (const auto& slot : registry().devices) {
    DeviceState* device = slot.load(std::memory_order_acquire);
    if (device != nullptr && device->arena_.contains(pointer)) return device;
  }
  return nullptr;
}

DeviceState& DeviceState::current() { return get(current_ordinal); }
void DeviceState::make_current(int ordinal) { current_ordinal = ordinal; }

bool DeviceState::alive() const {
  return generation_ == generation.load(std::memory_order_relaxed);
}

std::shared_ptr<StreamState> DeviceState::add_stream() {
  const std::lock_guard lock(mutex_);
  static std::atomic<unsigned> number = 0;
  auto stream = std::make_shared<StreamState>(*this, concat("stream ", ++number));
  streams_.emplace(stream.get(), stream);
  return stream;
}

void DeviceState::forget_stream(StreamState* stream) {
  std::shared_ptr<StreamState> last;  // destroyed after the lock is released
  const std::lock_guard lock(mutex_);
  if (const auto found = streams_.find(stream); found != streams_.end()) {
    last = std::move(found->second);
    streams_.erase(found);
  }
}

void DeviceState::synchronize(const Deadline& deadline) {
  std::vector<std::shared_ptr<StreamState>> streams{default_stream_};
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, stream] : streams_) streams.push_back(stream);
  }
  for (const auto& stream : streams) stream->drain(deadline);
  throw_if_failed("synchronize");
}

void DeviceState::fail(const std::string& report) noexcept {
  const std::lock_guard lock(mutex_);
  if (failed_.load(std::memory_order_relaxed)) return;
  report_ = report;
  failed_.store(true, std::memory_order_release);
}

void DeviceState::throw_if_failed(std::string_view call) {
  if (!failed()) return;
  reported_.store(true, std::memory_order_release);
  throw_if_reported(call);
}

void DeviceState::throw_if_reported(std::string_view call) {
  if (!reported_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex_);
  RUNGS_THROW(kCuda, call, " on device ", info_.ordinal, ": ", report_);
}

void DeviceState::reset_error() {
  const std::lock_guard lock(mutex_);
  report_.clear();
  reported_.store(false, std::memory_order_release);
  failed_.store(false, std::memory_order_release);
}

}  // namespace rungs::gpu::detail
