#include "trace_session.hpp"

#include <rungs/core/error.hpp>

#include <algorithm>
#include <tuple>
#include <utility>

namespace rungs::emulator::trace {

struct Session::State {
  Request request;
  mutable std::mutex mutex;  // of what follows
  std::vector<std::string> launched;
  std::uint64_t matching = 0;
  std::optional<Trace> trace;
};

namespace {

std::atomic<bool> waiting{false};  // looked at by every launch
std::mutex mutex;                  // of `current`
std::shared_ptr<Session::State> current;

std::string schedule_of(const Options& options) {
  std::string text = options.async == Async::kLate    ? "late"
                     : options.async == Async::kEarly ? "early"
                                                      : "random";
  if (options.seed != 0 || options.async == Async::kRandom) text += concat(", seed ", options.seed);
  return text;
}

Index3 index_of(const gpu::Dim3& extent) { return {extent.x, extent.y, extent.z}; }

}  // namespace

Session::Session(Request request) : state_(std::make_shared<State>()) {
  state_->request = std::move(request);
  const std::lock_guard lock(mutex);
  RUNGS_REQUIRE(current == nullptr, "a launch is being traced already: one session at a time");
  current = state_;
  waiting = true;
}

Session::~Session() {
  const std::lock_guard lock(mutex);
  waiting = false;
  current = nullptr;
}

std::vector<std::string> Session::launched() const {
  const std::lock_guard lock(state_->mutex);
  return state_->launched;
}

std::optional<Trace> Session::take() {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->trace, std::nullopt);
}

std::shared_ptr<LaunchTrace> choose(const LaunchRequest& launch, const Options& options) {
  if (!waiting.load(std::memory_order_relaxed)) return nullptr;
  std::shared_ptr<Session::State> session;
  {
    const std::lock_guard lock(mutex);
    session = current;
  }
  if (session == nullptr) return nullptr;
  const Request& request = session->request;
  {
    const std::lock_guard lock(session->mutex);
    session->launched.push_back(launch.name);
    if (!request.kernel.empty() && request.kernel != launch.name) return nullptr;
    ++session->matching;
    if (request.launch != 0 && session->matching != request.launch) return nullptr;
  }
  return std::make_shared<LaunchTrace>(request, session, launch, options);
}

LaunchTrace::LaunchTrace(Request request, std::shared_ptr<Session::State> session,
                         const LaunchRequest& launch, const Options& options)
    : request_(std::move(request)),
      session_(std::move(session)),
      room_(static_cast<std::int64_t>(request_.most_events)) {
  trace_.kernel = launch.name;
  trace_.grid = index_of(launch.config.grid);
  trace_.block = index_of(launch.config.block);
  trace_.cluster = index_of(launch.config.cluster);
  trace_.schedule = schedule_of(options);
}

std::unique_ptr<Recorder> LaunchTrace::record(const Cluster& cluster) {
  return std::make_unique<Recorder>(cluster, request_.cta, &room_);
}

void LaunchTrace::add(std::unique_ptr<Recorder> recorder) {
  recorder->finish();
  std::vector<Cta> ctas = timelines(*recorder);
  const std::lock_guard lock(mutex_);
  counts_.add(recorder->counts);
  std::move(ctas.begin(), ctas.end(), std::back_inserter(trace_.ctas));
}

void LaunchTrace::finish(const std::string& report) {
  const std::lock_guard lock(mutex_);
  trace_.report = report;
  trace_.totals = counts_.result();
  std::sort(trace_.ctas.begin(), trace_.ctas.end(), [](const Cta& a, const Cta& b) {
    return std::tie(a.index.z, a.index.y, a.index.x) < std::tie(b.index.z, b.index.y, b.index.x);
  });
  const std::lock_guard session_lock(session_->mutex);
  session_->trace = std::move(trace_);
}

}  // namespace rungs::emulator::trace
