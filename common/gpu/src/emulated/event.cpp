#include <rungs/gpu/stream.hpp>

#include "capture.hpp"
#include "checks.hpp"
#include "device_state.hpp"
#include "stream_state.hpp"

#include <rungs/core/error.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace rungs::gpu {
namespace detail {
namespace {

// One record(): reached once.
class Mark {
 public:
  explicit Mark(DeviceState& device) : device_(device) {}

  void reach() {
    std::vector<StreamState*> waiting;
    {
      const std::lock_guard lock(mutex_);
      time_ = std::chrono::steady_clock::now();
      reached_.store(true, std::memory_order_release);
      waiting.swap(waiting_);
      waiter_.wake();
    }
    for (StreamState* stream : waiting) complete({stream, StreamState::kFrontEnded});
  }

  // Whether it is reached; if not, `stream` goes on when it is.
  bool reached_or_wait(StreamState& stream) {
    if (reached()) return true;
    const std::lock_guard lock(mutex_);
    if (reached()) return true;
    waiting_.push_back(&stream);
    return false;
  }

  [[nodiscard]] bool reached() const { return reached_.load(std::memory_order_acquire); }
  [[nodiscard]] std::chrono::steady_clock::time_point time() const { return time_; }

  void wait(const Deadline& deadline) {
    if (!waiter_.wait(mutex_, deadline, [this] { return reached(); })) {
      RUNGS_THROW(kTimeout, "event of device ", device_.info().ordinal, ": waited ",
                  deadline.waited().count(), " s and it was not reached");
    }
    device_.throw_if_failed("synchronize");
  }

 private:
  DeviceState& device_;
  std::mutex mutex_;
  std::atomic<bool> reached_ = false;
  std::chrono::steady_clock::time_point time_;  // read after reached_
  std::vector<StreamState*> waiting_;
  Waiter waiter_;
};

class RecordWork final : public Work {
 public:
  explicit RecordWork(std::shared_ptr<Mark> mark) : mark_(std::move(mark)) {}
  bool start(StreamState&) override {
    mark_->reach();
    return true;
  }
  std::string describe() const override { return "an event's record"; }

 private:
  std::shared_ptr<Mark> mark_;
};

class WaitWork final : public Work {
 public:
  explicit WaitWork(std::shared_ptr<Mark> mark) : mark_(std::move(mark)) {}
  bool start(StreamState& stream) override { return mark_->reached_or_wait(stream); }
  std::string describe() const override { return "a wait for another stream's event"; }

 private:
  std::shared_ptr<Mark> mark_;
};

// What the last record() stands for: a mark, or a place in a capture.
struct EventState {
  std::mutex mutex;
  std::shared_ptr<Mark> mark;
  Clock order;  // what comes before the mark
  bool captured = false;
  bool timed = true;
  std::weak_ptr<Capture> capture;
  Frontier frontier;
};

EventState& state_of(CUevent_st* handle) {
  RUNGS_REQUIRE(handle != nullptr, "event: it was moved away");
  return *reinterpret_cast<EventState*>(handle);
}

std::shared_ptr<Mark> mark_of(EventState& event, const char* call) {
  const std::lock_guard lock(event.mutex);
  if (event.captured) {
    const std::string refused = refused_in_capture(call);
    if (const auto capture = event.capture.lock()) capture->refuse(refused);
    RUNGS_THROW(kInvalidArgument, refused);
  }
  return event.mark;
}

void wait_in_capture(EventState& event, StreamState& stream) {
  const auto capture = event.capture.lock();
  RUNGS_REQUIRE(capture != nullptr, stream.describe(),
                " waits for an event recorded inside a capture that has ended; record it again");
  const auto own = stream.capture();
  if (own != nullptr && own != capture) {
    own->refuse(concat(stream.describe(), " waits for an event of another capture"));
  }
  capture->join(stream, event.frontier);
}

}  // namespace
}  // namespace detail

Event::Event(const Device& device, Timing timing) {
  detail::DeviceState::get(device.ordinal());
  auto state = std::make_unique<detail::EventState>();
  state->timed = timing == Timing::kOn;
  handle_ = reinterpret_cast<CUevent_st*>(state.release());
}

Event::~Event() { delete reinterpret_cast<detail::EventState*>(handle_); }

Event::Event(Event&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

void Event::record(StreamHandle stream) {
  detail::EventState& event = detail::state_of(handle_);
  detail::StreamState& queue = detail::StreamState::from(stream);
  const std::lock_guard lock(event.mutex);
  if (const auto capture = queue.capture()) {
    event.frontier = capture->frontier_of(queue);
    event.capture = capture;
    event.captured = true;
    event.mark.reset();
    return;
  }
  event.captured = false;
  event.mark = std::make_shared<detail::Mark>(queue.device());
  event.order = detail::order_of(queue);
  queue.enqueue(std::make_unique<detail::RecordWork>(event.mark));
}

void Event::wait_on(StreamHandle stream) const {
  detail::EventState& event = detail::state_of(handle_);
  detail::StreamState& queue = detail::StreamState::from(stream);
  const std::lock_guard lock(event.mutex);
  if (event.captured) return detail::wait_in_capture(event, queue);
  if (event.mark == nullptr) return;
  if (const auto capture = queue.capture()) {
    capture->refuse(concat(queue.describe(),
                           " waits for an event recorded outside the capture; record it inside"));
  }
  detail::order_behind(queue, event.order);
  if (event.mark->reached()) return;
  queue.enqueue(std::make_unique<detail::WaitWork>(event.mark));
}

void Event::synchronize(const Deadline& deadline) const {
  detail::EventState& event = detail::state_of(handle_);
  const auto mark = detail::mark_of(event, "Event::synchronize");
  if (mark == nullptr) return;
  detail::Clock order;
  {
    const std::lock_guard lock(event.mutex);
    if (event.mark == mark) order = event.order;
  }
  mark->wait(deadline);
  detail::order_host_behind(order);
}

double Event::seconds_since(const Event& earlier) const {
  RUNGS_REQUIRE(detail::state_of(handle_).timed && detail::state_of(earlier.handle_).timed,
                "seconds_since: an event was made with Timing::kNone");
  const auto last = detail::mark_of(detail::state_of(handle_), "Event::seconds_since");
  const auto first = detail::mark_of(detail::state_of(earlier.handle_), "Event::seconds_since");
  RUNGS_REQUIRE(first != nullptr && last != nullptr, "seconds_since: an event was not recorded");
  RUNGS_REQUIRE(first->reached() && last->reached(),
                "seconds_since: an event was not reached yet; synchronise first");
  return std::chrono::duration<double>(last->time() - first->time()).count();
}

}  // namespace rungs::gpu
