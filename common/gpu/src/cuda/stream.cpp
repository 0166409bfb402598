#include <rungs/gpu/stream.hpp>

#include "api.hpp"
#include "streams.hpp"

#include <rungs/core/log.hpp>
#include <rungs/gpu/graph.hpp>

#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

namespace rungs::gpu {
namespace detail {
namespace {

struct Streams {
  std::mutex mutex;
  std::unordered_map<cudaStream_t, int> device_of;
};

Streams& streams() {
  static auto* all =
      new Streams;  // static objects may destroy their streams after any destructor of ours
  return *all;
}

}  // namespace

void add_stream(int ordinal, cudaStream_t stream) {
  const std::lock_guard lock(streams().mutex);
  streams().device_of.emplace(stream, ordinal);
}

void remove_stream(cudaStream_t stream) noexcept {
  const std::lock_guard lock(streams().mutex);
  streams().device_of.erase(stream);
}

std::optional<int> find_stream(cudaStream_t stream) {
  const std::lock_guard lock(streams().mutex);
  const auto found = streams().device_of.find(stream);
  if (found == streams().device_of.end()) return std::nullopt;
  return found->second;
}

cudaError_t query_streams(int ordinal) {
  const std::lock_guard lock(streams().mutex);
  for (const auto& [stream, device] : streams().device_of) {
    if (device != ordinal) continue;
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    if (cudaStreamIsCapturing(stream, &status) != cudaSuccess ||
        status != cudaStreamCaptureStatusNone)
      continue;
    if (const cudaError_t result = cudaStreamQuery(stream); result != cudaSuccess) return result;
  }
  return cudaSuccess;
}

}  // namespace detail

Stream::Stream(const Device& device) {
  const detail::DeviceGuard guard(device.ordinal());
  detail::check(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking),
                "cudaStreamCreateWithFlags");
  detail::add_stream(device.ordinal(), handle_);
}

Stream::~Stream() {
  if (handle_ == nullptr) return;
  detail::remove_stream(handle_);
  const cudaError_t result = cudaStreamDestroy(handle_);
  if (result != cudaSuccess && result != cudaErrorCudartUnloading) {
    log::warn("cudaStreamDestroy: ", detail::explain(result));
  }
}

Stream::Stream(Stream&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}

Stream& Stream::operator=(Stream&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

void Stream::synchronize(const Deadline& deadline) const { gpu::synchronize(handle_, deadline); }

void synchronize(StreamHandle stream, const Deadline& deadline) {
  if (is_capturing(stream)) detail::refuse_in_capture("synchronize");
  detail::wait_for(
      [stream] { return cudaStreamQuery(stream); }, deadline,
      [stream] { return concat("synchronize: a stream of device ", detail::device_of(stream)); });
}

}  // namespace rungs::gpu
