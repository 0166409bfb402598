#include <rungs/gpu/stream_buffer.hpp>

#include "capture.hpp"
#include "checks.hpp"
#include "device_state.hpp"
#include "stream_order.hpp"
#include "stream_state.hpp"

#include <rungs/core/log.hpp>

#include <cstring>
#include <memory>

namespace rungs::gpu::detail {
namespace {

// The end of an allocation, when the stream gets there: whoever still reads it sees NaN.
class ReleaseWork final : public Work {
 public:
  ReleaseWork(Arena& arena, void* memory, std::size_t size_bytes)
      : arena_(arena),
        memory_(memory),
        size_bytes_(size_bytes) {}
  bool start(StreamState&) override {
    std::memset(memory_, 0xff, size_bytes_);
    arena_.release(memory_);
    return true;
  }
  std::string describe() const override { return "a release of memory"; }

 private:
  Arena& arena_;
  void* memory_;
  std::size_t size_bytes_;
};

void refuse_capture(const StreamState& stream, const std::string& call) {
  if (const auto recording = stream.capture()) recording->refuse(refused_in_capture(call));
  if (Capture* capture = Capture::of_this_thread()) capture->refuse(refused_in_capture(call));
}

}  // namespace

void* allocate_in_order(std::size_t size_bytes, StreamHandle stream) {
  StreamState& queue = StreamState::from(stream);
  refuse_capture(queue, concat("stream-ordered allocation of ", size_bytes, " bytes"));
  void* memory = queue.device().arena().allocate(size_bytes, false);
  note_allocation(queue, memory, size_bytes);
  return memory;
}

void release_in_order(void* pointer, StreamHandle stream) {
  StreamState& queue = StreamState::from(stream);
  refuse_capture(queue, "stream-ordered release");
  DeviceState* owner = DeviceState::owner_of(pointer);
  if (owner == nullptr) return;  // the parent's, seen by its fork()ed child
  const std::size_t size_bytes = note_release(queue, pointer);
  queue.enqueue(std::make_unique<ReleaseWork>(owner->arena(), pointer, size_bytes));
}

void release_in_order_or_log(void* pointer, StreamHandle stream) noexcept {
  try {
    release_in_order(pointer, stream);
  } catch (const std::exception& error) {
    log::warn("a stream's buffer could not be freed: ", error.what());
  }
}

}  // namespace rungs::gpu::detail
