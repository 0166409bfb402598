#include <rungs/gpu/stream.hpp>

#include "api.hpp"

#include <rungs/core/log.hpp>

#include <utility>

namespace rungs::gpu {

Event::Event(const Device& device, Timing timing) {
  const detail::DeviceGuard guard(device.ordinal());
  const unsigned flags = timing == Timing::kOn ? cudaEventDefault : cudaEventDisableTiming;
  detail::check(cudaEventCreateWithFlags(&handle_, flags), "cudaEventCreateWithFlags");
}

Event::~Event() {
  if (handle_ == nullptr) return;
  const cudaError_t result = cudaEventDestroy(handle_);
  if (result != cudaSuccess && result != cudaErrorCudartUnloading) {
    log::warn("cudaEventDestroy: ", detail::explain(result));
  }
}

Event::Event(Event&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

void Event::record(StreamHandle stream) {
  detail::check(cudaEventRecord(handle_, stream), "cudaEventRecord");
}

void Event::wait_on(StreamHandle stream) const {
  const cudaError_t result = cudaStreamWaitEvent(stream, handle_, 0);
  if (result == cudaErrorStreamCaptureIsolation || result == cudaErrorCapturedEvent ||
      result == cudaErrorStreamCaptureMerge) {
    const std::string reason = concat(
        "a stream waits for an event recorded outside its capture, or in one that has ended: ",
        detail::explain(result));
    if (auto* scope = detail::CaptureScope::innermost()) scope->refuse(reason);
    RUNGS_THROW(kInvalidArgument, reason);
  }
  detail::check(result, "cudaStreamWaitEvent");
}

void Event::synchronize(const Deadline& deadline) const {
  const auto query = [this] {
    const cudaError_t result = cudaEventQuery(handle_);
    if (result == cudaErrorCapturedEvent) {
      (void)cudaGetLastError();
      detail::refuse_in_capture("Event::synchronize");
    }
    return result;
  };
  detail::wait_for(query, deadline, [] { return std::string("synchronize: an event"); });
}

double Event::seconds_since(const Event& earlier) const {
  float milliseconds = 0;
  const cudaError_t result = cudaEventElapsedTime(&milliseconds, earlier.handle_, handle_);
  if (result == cudaErrorCapturedEvent) {
    (void)cudaGetLastError();
    detail::refuse_in_capture("Event::seconds_since");
  }
  if (result == cudaErrorNotReady || result == cudaErrorInvalidResourceHandle) {
    (void)cudaGetLastError();
    RUNGS_THROW(
        kInvalidArgument,
        "seconds_since: an event was not recorded, not reached yet (synchronise first) or made "
        "with Timing::kNone");
  }
  detail::check(result, "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) * 1e-3;
}

}  // namespace rungs::gpu
