#pragma once
/// @file stream_state.hpp
/// An emulated stream: a queue whose next piece of work is started by the thread that ended the
/// last one.

#include "capture.hpp"
#include "operation.hpp"
#include "stream_order.hpp"
#include "waiter.hpp"

#include <rungs/gpu/stream.hpp>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace rungs::gpu::detail {

class DeviceState;

/// One piece of work in a stream's queue.
class Work {
 public:
  virtual ~Work() = default;
  /// Begins. True: it has ended. False: complete({&stream, StreamState::kFrontEnded}) will be
  /// called, perhaps before this returns; the work may be gone by then.
  virtual bool start(StreamState& stream) = 0;
  /// The same for work that others may start before the end of, or that may itself start early:
  /// StreamState::ended(slot) will be completed, after StreamState::released(slot) if ever.
  virtual bool start_in_slot(StreamState& stream, unsigned /*slot*/,
                             std::shared_ptr<emulator::Prerequisite> /*before*/) {
    return start(stream);
  }
  [[nodiscard]] virtual bool may_start_early() const { return false; }
  [[nodiscard]] virtual std::string describe() const = 0;
};

/// Thread safe.
class StreamState final : public Completable, public std::enable_shared_from_this<StreamState> {
 public:
  enum Step : std::size_t { kFrontEnded, kBegin, kSlotEnded, kSlotReleased = kSlotEnded + 2 };
  static std::size_t slot_ended(unsigned slot) { return kSlotEnded + slot; }
  static std::size_t slot_released(unsigned slot) { return kSlotReleased + slot; }

  StreamState(DeviceState& device, std::string name);
  ~StreamState();
  StreamState(const StreamState&) = delete;
  StreamState& operator=(const StreamState&) = delete;

  /// The stream behind a handle; null is the calling thread's default stream.
  /// @throws Error kInvalidArgument for what is no stream of this process
  static StreamState& from(StreamHandle handle);
  [[nodiscard]] StreamHandle handle() { return reinterpret_cast<StreamHandle>(this); }

  [[nodiscard]] DeviceState& device() const { return device_; }
  [[nodiscard]] std::string describe() const;

  /// Tells it from every other stream there was.
  [[nodiscard]] std::uint64_t number() const { return number_; }
  Clock clock;  // stream_order.cpp's

  void enqueue(std::unique_ptr<Work> work);
  /// Runs `operation` after what is queued, or records it if the stream is being captured.
  void add(Operation operation);

  /// Waits for everything queued so far; the device's error is not looked at.
  /// @throws Error kTimeout; kInvalidArgument while the stream is captured
  void drain(const Deadline& deadline);
  /// Its Stream is gone: the state follows as soon as the queue is empty.
  void close();

  [[nodiscard]] std::shared_ptr<Capture> capture() const;
  /// Null ends the capture.
  void set_capture(std::shared_ptr<Capture> capture);

  void completed(std::size_t step) noexcept override;
  void failed(std::size_t step, const std::string& report) override;

 private:
  // The front of the queue, or the work behind it that was started early.
  struct Slot {
    bool started = false;
    bool ended = false;
    bool released = false;  // what is behind it may start
    std::shared_ptr<emulator::Prerequisite> prerequisite;
  };

  // Work behind the front that was chosen to start early; null if there is none.
  struct Early {
    Work* work = nullptr;
    unsigned slot = 0;
    std::shared_ptr<emulator::Prerequisite> before;
  };

  void advance();
  bool retire(Early* early);
  bool start_front();
  Early choose_early();
  void start(Early early);

  static constexpr std::uint64_t kAlive = 0x52756e677353746dull;
  std::uint64_t magic_ = kAlive;  // tells a handle from garbage
  DeviceState& device_;
  const std::string name_;
  const std::uint64_t number_;
  mutable std::mutex mutex_;  // of what follows, except that the front is read by whoever runs it
  std::deque<std::unique_ptr<Work>> queue_;
  bool running_ = false;
  Slot slots_[2];
  unsigned front_slot_ = 0;
  bool closed_ = false;
  std::shared_ptr<Capture> capture_;
  std::atomic<bool> capturing_ = false;  // whether capture_ is set, for the fast path
  std::uint64_t queued_ = 0;
  std::atomic<std::uint64_t> ended_ = 0;
  Waiter waiter_;
};

}  // namespace rungs::gpu::detail
