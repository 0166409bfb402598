#include "stream_state.hpp"

#include "checks.hpp"
#include "device_state.hpp"

#include <rungs/core/error.hpp>

#include <utility>

namespace rungs::gpu::detail {
namespace {

class OperationWork final : public Work {
 public:
  explicit OperationWork(Operation operation) : operation_(std::move(operation)) {}
  bool start(StreamState& stream) override {
    return operation_.start({&stream, StreamState::kFrontEnded});
  }
  bool start_in_slot(StreamState& stream, unsigned slot,
                     std::shared_ptr<emulator::Prerequisite> before) override {
    const Completion ended{&stream, StreamState::slot_ended(slot)};
    if (!operation_.is_kernel()) return operation_.start(ended);
    const Completion released{&stream, StreamState::slot_released(slot)};
    return operation_.start(ended, {[released] { complete(released); }, std::move(before)});
  }
  [[nodiscard]] bool may_start_early() const override { return operation_.may_start_early(); }
  std::string describe() const override { return operation_.describe(); }

 private:
  Operation operation_;
};

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> last = 0;
  return ++last;
}

}  // namespace

StreamState::StreamState(DeviceState& device, std::string name)
    : device_(device),
      name_(std::move(name)),
      number_(next_number()) {}

StreamState::~StreamState() { magic_ = 0; }

StreamState& StreamState::from(StreamHandle handle) {
  if (handle == nullptr) return DeviceState::current().default_stream();
  auto* stream = reinterpret_cast<StreamState*>(handle);
  // CUDA's special handles are the addresses 1 and 2.
  RUNGS_REQUIRE(reinterpret_cast<std::uintptr_t>(handle) % alignof(StreamState) == 0 &&
                    stream->magic_ == kAlive,
                "stream handle ", static_cast<const void*>(handle),
                " is not a live emulated stream");
  RUNGS_REQUIRE(stream->device_.alive(), stream->describe(),
                " was made before fork(); a child process must make its own");
  return *stream;
}

std::string StreamState::describe() const {
  return concat(name_, " of device ", device_.info().ordinal);
}

void StreamState::enqueue(std::unique_ptr<Work> work) {
  bool begin = false;
  Early early;
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    ++queued_;
    begin = !running_;
    running_ = true;
    if (!begin) early = choose_early();
  }
  if (begin) {
    complete({this, kBegin});
  } else if (early.work != nullptr) {
    start(std::move(early));
  }
}

void StreamState::add(Operation operation) {
  device_.throw_if_reported("submission");
  if (const auto recording = capture()) {
    recording->add(*this, std::move(operation));
  } else {
    enqueue(std::make_unique<OperationWork>(std::move(operation)));
  }
}

void StreamState::completed(std::size_t step) noexcept {
  switch (step) {
    case kBegin:
      if (start_front()) advance();
      return;
    case kFrontEnded:
      return advance();
    case kSlotReleased:
    case kSlotReleased + 1: {
      Early early;
      {
        const std::lock_guard lock(mutex_);
        slots_[step - kSlotReleased].released = true;
        early = choose_early();
      }
      if (early.work != nullptr) start(std::move(early));
      return;
    }
    default: {
      const auto slot = static_cast<unsigned>(step - kSlotEnded);
      {
        const std::lock_guard lock(mutex_);
        slots_[slot].ended = true;
        if (slot != front_slot_) return;  // the work ahead of it is still running
      }
      return advance();
    }
  }
}

// The front has ended: starts what follows, as far as that ends at once.
void StreamState::advance() {
  Early early;
  while (retire(&early)) {
    if (!start_front()) return;
  }
  if (early.work != nullptr) start(std::move(early));  // else `this` may be gone
}

// True: it has ended. False: it is running, and `this` may be gone.
bool StreamState::start_front() {
  Work* front = nullptr;
  unsigned slot = 0;
  {
    const std::lock_guard lock(mutex_);
    front = queue_.front().get();
    slot = front_slot_;
    slots_[slot].started = true;
    slots_[slot].prerequisite = std::make_shared<emulator::Prerequisite>();
  }
  return front->start_in_slot(*this, slot, nullptr);
}

// With the mutex held: the work behind the front, if it may start now; it then counts as started.
StreamState::Early StreamState::choose_early() {
  const Slot& front = slots_[front_slot_];
  const unsigned slot = 1 - front_slot_;
  if (queue_.size() < 2 || !front.started || front.ended || !front.released ||
      slots_[slot].started || !queue_[1]->may_start_early()) {
    return {};
  }
  slots_[slot].started = true;
  slots_[slot].prerequisite = std::make_shared<emulator::Prerequisite>();
  return {queue_[1].get(), slot, front.prerequisite};
}

// `this` lives until the chosen work has ended, and no longer.
void StreamState::start(Early early) {
  if (early.work->start_in_slot(*this, early.slot, std::move(early.before)))
    complete({this, slot_ended(early.slot)});
}

void StreamState::failed(std::size_t, const std::string& report) { device_.fail(report); }

// Ends the front, and work behind it that started early and has ended too. Whether there is more to
// start; if not, `this` may be gone, but for the work `early` that may start before its turn.
bool StreamState::retire(Early* early) {
  for (;;) {
    std::unique_ptr<Work> ended;  // destroyed after the lock is released
    bool last = false;
    {
      const std::lock_guard lock(mutex_);
      ended = std::move(queue_.front());
      queue_.pop_front();
      slots_[front_slot_].prerequisite->end();
      slots_[front_slot_] = {};
      front_slot_ = 1 - front_slot_;
      const bool more = !queue_.empty();
      if (!more) {
        running_ = false;
        last = closed_;
      }
      // Under the lock to the end: who sees the count may destroy the stream, and takes the lock
      // for it.
      ended_.fetch_add(1, std::memory_order_release);
      waiter_.wake();
      if (more) {
        const Slot& front = slots_[front_slot_];
        if (!front.started) return true;
        if (front.ended) continue;
        *early = choose_early();  // else its own end goes on from here
        return false;
      }
    }
    if (last) device_.forget_stream(this);
    return false;
  }
}

void StreamState::drain(const Deadline& deadline) {
  if (const auto recording = capture()) recording->refuse(refused_in_capture("synchronize"));
  const Clock order = order_of(*this);
  std::uint64_t goal = 0;
  {
    const std::lock_guard lock(mutex_);
    goal = queued_;
  }
  const auto ready = [&] { return ended_.load(std::memory_order_acquire) >= goal; };
  if (waiter_.wait(mutex_, deadline, ready)) return order_host_behind(order);
  const std::lock_guard lock(mutex_);
  if (ready()) return order_host_behind(order);
  RUNGS_THROW(kTimeout, "synchronize: ", describe(), ": waited ", deadline.waited().count(),
              " s for ", queue_.front()->describe(), " and ", queue_.size() - 1,
              " pieces of work behind it");
}

void StreamState::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    if (running_) return;
  }
  device_.forget_stream(this);
}

std::shared_ptr<Capture> StreamState::capture() const {
  if (!capturing_.load(std::memory_order_acquire)) return nullptr;
  const std::lock_guard lock(mutex_);
  return capture_;
}

void StreamState::set_capture(std::shared_ptr<Capture> capture) {
  const std::lock_guard lock(mutex_);
  capture_ = std::move(capture);
  capturing_.store(capture_ != nullptr, std::memory_order_release);
}

}  // namespace rungs::gpu::detail
