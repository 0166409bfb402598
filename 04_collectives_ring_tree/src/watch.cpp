#include <rungs/collectives/watch.hpp>

#include <rungs/core/error.hpp>
#include <rungs/core/log.hpp>

#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <utility>

namespace rungs::collectives {
namespace {

constexpr auto kPeriod = std::chrono::milliseconds(5);

}  // namespace

Watch::Watch(bootstrap::Group& group, Control& control, WatchOptions options)
    : group_(group),
      control_(control),
      options_(std::move(options)) {
  std::memset(&control, 0, sizeof(control));
  thread_ = std::thread([this] { run(); });
}

Watch::~Watch() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Watch::run() {
  log::set_rank(group_.rank());
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, kPeriod, [this] { return stop_; })) look();
}

// With the mutex.
void Watch::look() {
  if (first_) return;
  try {
    // What this rank saw itself says more than what it hears of others.
    const std::optional<std::string> seen =
        options_.lost_otherwise ? options_.lost_otherwise() : std::nullopt;
    if (seen) {
      fail(ErrorCode::kPeerLost, *seen);
      group_.abort(compose().text);
    } else if (const std::optional<bootstrap::Lost> lost = group_.lost()) {
      fail(ErrorCode::kPeerLost, lost->rank < 0 ? lost->reason
                                                : concat("rank ", lost->rank, " was lost to rank ",
                                                         group_.rank(), ": ", lost->reason));
    } else if (kernel_gave_up()) {
      fail(ErrorCode::kTimeout, {});
      group_.abort(compose().text);
    }
  } catch (const std::exception& error) {
    log::error("collectives: ", error.what());
  }
}

// With the mutex. The cause is on record before a kernel can see the abort word.
void Watch::fail(ErrorCode code, const std::string& text) {
  first_ = AsyncError{code, text, std::nullopt};
  std::atomic_ref(control_.abort)
      .store(static_cast<std::uint32_t>(AbortCause::kHost), std::memory_order_release);
}

void Watch::abort(const std::string& reason) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (first_) return;
    aborted_here_ = true;
    fail(ErrorCode::kPeerLost, concat("rank ", group_.rank(), " gave up: ", reason));
    group_.abort(reason);
  } catch (const std::exception& error) {
    log::error("collectives: abort(): ", error.what());
  }
}

bool Watch::kernel_gave_up() const {
  return std::atomic_ref(control_.fault.set).load(std::memory_order_acquire) == 2;
}

// With the mutex, and first_.
AsyncError Watch::compose() const {
  AsyncError error = *first_;
  if (!kernel_gave_up()) return error;
  // Kernels go on asking for `set`; the rest is written once.
  const gpu::Fault& fault = control_.fault;
  error.fault = gpu::Fault{2,          fault.kernel,   fault.rank,     fault.peer,
                           fault.slot, fault.reserved, fault.expected, fault.seen};
  if (error.code == ErrorCode::kTimeout) {
    error.text = concat(options_.describe(*error.fault), "; waited ", options_.timeout_seconds,
                        " s. Has rank ", fault.peer, " made the same calls in the same order?");
  } else {
    error.text += concat("; ", options_.describe(*error.fault));
  }
  return error;
}

std::optional<AsyncError> Watch::error() {
  const std::lock_guard lock(mutex_);
  look();
  if (!first_) return std::nullopt;
  return compose();
}

void Watch::check() {
  if (const std::optional<AsyncError> failure = error())
    throw Error(failure->code, failure->text, __FILE__, __LINE__);
}

void Watch::check_results() {
  const std::optional<AsyncError> failure = error();
  if (!failure) return;
  if (failure->fault || aborted_here_)
    throw Error(failure->code, failure->text, __FILE__, __LINE__);
}

}  // namespace rungs::collectives
