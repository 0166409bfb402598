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
  std::string describe() const override { return operation_.describe(); }

 private:
  Operation operation_;
};

}  // namespace

StreamState::StreamState(DeviceState& device, std::string name)
    : device_(device),
      name_(std::move(name)) {}

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
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    ++queued_;
    if (running_) return;
    running_ = true;
  }
  complete({this, kBegin});
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
  if (step == kFrontEnded && !retire()) return;
  for (;;) {
    Work* front = nullptr;
    {
      const std::lock_guard lock(mutex_);
      front = queue_.front().get();
    }
    if (!front->start(*this)) return;
    if (!retire()) return;
  }
}

void StreamState::failed(std::size_t, const std::string& report) { device_.fail(report); }

// Whether there is more to run. When not, `this` may be gone.
bool StreamState::retire() {
  std::unique_ptr<Work> ended;
  bool last = false;
  {
    const std::lock_guard lock(mutex_);
    ended = std::move(queue_.front());
    queue_.pop_front();
    const bool more = !queue_.empty();
    if (!more) {
      running_ = false;
      last = closed_;
    }
    // Under the lock to the end: who sees the count may destroy the stream, and takes the lock for
    // it.
    ended_.fetch_add(1, std::memory_order_release);
    waiter_.wake();
    if (more) return true;
  }
  if (last) device_.forget_stream(this);
  return false;
}

void StreamState::drain(const Deadline& deadline) {
  if (const auto recording = capture()) recording->refuse(refused_in_capture("synchronize"));
  std::uint64_t goal = 0;
  {
    const std::lock_guard lock(mutex_);
    goal = queued_;
  }
  const auto ready = [&] { return ended_.load(std::memory_order_acquire) >= goal; };
  if (waiter_.wait(mutex_, deadline, ready)) return;
  const std::lock_guard lock(mutex_);
  if (ready()) return;
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
