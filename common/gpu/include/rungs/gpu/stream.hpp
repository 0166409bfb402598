#pragma once
/// @file stream.hpp
/// Streams and events. Work on one stream runs in order; events order streams among each other.

#include <rungs/gpu/device.hpp>

namespace rungs::gpu {

/// Owns a non-blocking stream (it does not synchronise with the default stream).
class Stream {
 public:
  explicit Stream(const Device& device);
  ~Stream();
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  [[nodiscard]] StreamHandle get() const noexcept { return handle_; }
  operator StreamHandle() const noexcept { return handle_; }  // NOLINT(google-explicit-constructor)
  /// @throws Error kCuda with the first failed kernel's report; kTimeout; kInvalidArgument inside a
  ///         capture
  void synchronize(const Deadline& deadline = Deadline::standard()) const;

 private:
  StreamHandle handle_ = nullptr;
};

/// Waits for everything on `stream`; errors as Stream::synchronize.
void synchronize(StreamHandle stream, const Deadline& deadline = Deadline::standard());

/// Whether seconds_since() can be asked of an event.
enum class Timing { kNone, kOn };

/// A point in a stream, to wait for or to measure from. Inside a capture, record + wait fork and
/// join streams.
/// @note CUDA, H200, driver 580: the first record() of an event with timing keeps kernels of other
///       streams from starting until that stream's work is done. Where kernels of two streams wait
///       for each other (ranks that share a GPU) take Timing::kNone, or record once before
class Event {
 public:
  explicit Event(const Device& device, Timing timing = Timing::kOn);
  ~Event();
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(StreamHandle stream);
  /// `stream` goes on only after the last record() was reached; without one, at once.
  void wait_on(StreamHandle stream) const;
  /// Waits on the host; errors as Stream::synchronize.
  void synchronize(const Deadline& deadline = Deadline::standard()) const;
  /// Seconds between two reached events. Emulated: wall time of the host, which says nothing about
  /// a GPU.
  /// @throws Error kInvalidArgument if one was not recorded, not reached or has no timing
  [[nodiscard]] double seconds_since(const Event& earlier) const;

 private:
  CUevent_st* handle_ = nullptr;
};

}  // namespace rungs::gpu
