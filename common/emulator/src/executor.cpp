#include <rungs/emulator/executor.hpp>

#include <rungs/core/error.hpp>

#include "executor_impl.hpp"
#include "sanitizer.hpp"
#include "shared_memory.hpp"
#include "trace_session.hpp"
#include "worker.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

namespace rungs::emulator {
namespace {

std::string text_of(const gpu::Dim3& extent) {
  return concat(extent.x, " x ", extent.y, " x ", extent.z);
}

}  // namespace

// --------------------------------------------------------------------------------- for the workers

void Executor::Impl::announce(std::uint64_t pieces) {
  if (sleeping == 0) return;
  if (pieces > 1) {
    work_ready.notify_all();
  } else {
    work_ready.notify_one();
  }
}

bool Executor::Impl::run_host_work() {
  std::unique_lock lock(mutex);
  if (host_work.empty()) return false;
  const std::unique_ptr<HostWork> piece = std::move(host_work.front());
  host_work.pop_front();
  offers--;
  lock.unlock();
  sanitizer::acquire(&piece->token);
  if (sanitizer::thread_sanitizer()) sanitizer::ignore(false);
  piece->work();
  piece->done();
  if (sanitizer::thread_sanitizer()) sanitizer::ignore(true);
  progress.fetch_add(1, std::memory_order_relaxed);
  lock.lock();
  if (--in_flight == 0) all_done.notify_all();
  return true;
}

Launch* Executor::Impl::take_cluster(std::uint64_t* index, std::vector<Slot>* slots) {
  const std::lock_guard lock(mutex);
  for (const auto& candidate : launches) {
    Launch& launch = *candidate;
    if (launch.next_cluster == launch.cluster_count || launch.aborted) continue;
    const gpu::LaunchConfig& config = launch.request->config;
    if (config.cooperative) {
      if (launch.next_cluster == 0 &&
          !residency.reserve(config, config.grid.count(), &launch.reserved))
        continue;
      const auto share =
          launch.reserved.end() - static_cast<std::ptrdiff_t>(launch.blocks_per_cluster);
      slots->assign(share, launch.reserved.end());
      launch.reserved.erase(share, launch.reserved.end());
    } else if (!residency.reserve(config, launch.blocks_per_cluster, slots)) {
      continue;
    }
    *index = launch.next_cluster++;
    if (launch.next_cluster == launch.cluster_count) offers--;
    return &launch;
  }
  return nullptr;
}

void Executor::Impl::cluster_ended(Launch& launch, const std::vector<Slot>& slots,
                                   Counters* counters) {
  std::unique_lock lock(mutex);
  residency.release(slots);
  totals.blocks += counters->blocks;
  totals.threads += counters->threads;
  totals.async_bytes += counters->async_bytes;
  totals.mma_flops += counters->mma_flops;
  totals.barriers += counters->barriers;
  totals.fiber_switches += counters->fiber_switches;
  *counters = {};
  if (launch.aborted && launch.next_cluster < launch.cluster_count) {  // the rest will not run
    launch.unfinished_clusters -= launch.cluster_count - launch.next_cluster;
    launch.next_cluster = launch.cluster_count;
    offers--;
    residency.release(launch.reserved);
    launch.reserved.clear();
  }
  if (--launch.unfinished_clusters == 0)
    finish(lock, launch);
  else if (offers > 0)
    announce(1);  // there may be room now for what did not fit
}

void Executor::Impl::finish(std::unique_lock<std::mutex>& lock, Launch& launch) {
  const auto found = std::find_if(launches.begin(), launches.end(),
                                  [&](const auto& other) { return other.get() == &launch; });
  const std::unique_ptr<Launch> over = std::move(*found);
  launches.erase(found);
  if (offers > 0) announce(1);
  lock.unlock();
  sanitizer::acquire(&over->start_token);
  sanitizer::acquire(&over->end_token);
  if (sanitizer::thread_sanitizer()) sanitizer::ignore(false);
  if (over->trace != nullptr) over->trace->finish(over->report);
  over->done(std::move(over->report));
  over->done = nullptr;
  if (sanitizer::thread_sanitizer()) sanitizer::ignore(true);
  progress.fetch_add(1, std::memory_order_relaxed);
  lock.lock();
  if (--in_flight == 0) all_done.notify_all();
}

bool Executor::Impl::wait_for_work() {
  std::unique_lock lock(mutex);
  sleeping++;
  work_ready.wait(lock, [&] { return offers > 0 || stopping; });
  sleeping--;
  return offers > 0 || !stopping;
}

void Executor::Impl::wait_for_offer(std::chrono::microseconds duration) {
  std::unique_lock lock(mutex);
  sleeping++;
  work_ready.wait_for(lock, duration);
  sleeping--;
}

// ------------------------------------------------------------------------------------- for callers

Executor::Executor(const ExecutorOptions& options) {
  RUNGS_REQUIRE(options.sm_count >= 1 && options.sm_count <= 1024,
                "an emulated device has 1 to 1024 SMs, got ", options.sm_count);
  RUNGS_REQUIRE(options.workers >= 1 && options.workers <= 256,
                "an emulated device has 1 to 256 workers, got ", options.workers);
  impl_ = std::make_unique<Impl>(options.sm_count, options.workers);
  try {
    for (int i = 0; i < options.workers; i++) {
      impl_->threads.emplace_back([impl = impl_.get(), i] {
        const sanitizer::Mute
            mute;  // for the worker's whole life: what it frees, threads have read
        Worker worker(*impl, static_cast<std::size_t>(i));
        worker.run();
      });
    }
  } catch (const std::system_error& error) {
    if (impl_->threads.empty())
      RUNGS_THROW(kSystem, "cannot start an emulator thread: ", error.what());
  }
}

Executor::~Executor() {
  {
    std::unique_lock lock(impl_->mutex);
    impl_->all_done.wait(lock, [&] { return impl_->in_flight == 0; });
    impl_->stopping = true;
    impl_->work_ready.notify_all();
  }
  for (std::thread& thread : impl_->threads) thread.join();
}

void Executor::check(const LaunchRequest& request) const {
  const gpu::LaunchConfig& config = request.config;
  const std::string& name = request.name;
  RUNGS_REQUIRE(request.kernel != nullptr && request.invoke != nullptr, "launch of \"", name,
                "\": no kernel");
  RUNGS_REQUIRE(config.grid.count() >= 1 && config.grid.x <= 0x7fffffffu &&
                    config.grid.y <= 65535 && config.grid.z <= 65535,
                "launch of \"", name, "\": grid ", text_of(config.grid),
                "; extents are at least 1, and at most 2147483647 x 65535 x 65535");
  RUNGS_REQUIRE(config.block.count() >= 1 && config.block.count() <= 1024 && config.block.z <= 64,
                "launch of \"", name, "\": block ", text_of(config.block),
                "; a block has 1 to 1024 threads and at most 64 in z");
  RUNGS_REQUIRE(config.shared_bytes <= SharedMemory::kLimitBytes, "launch of \"", name,
                "\": ", config.shared_bytes,
                " bytes of dynamic shared memory; a block has at most ",
                std::uint32_t{SharedMemory::kLimitBytes});
  const gpu::Dim3& cluster = config.cluster;
  RUNGS_REQUIRE(cluster.count() >= 1 && cluster.count() <= 16, "launch of \"", name, "\": cluster ",
                text_of(cluster), "; a cluster has 1 to 16 blocks");
  RUNGS_REQUIRE(config.grid.x % cluster.x == 0 && config.grid.y % cluster.y == 0 &&
                    config.grid.z % cluster.z == 0,
                "launch of \"", name, "\": grid ", text_of(config.grid),
                " is not a multiple of the cluster ", text_of(cluster));
  const std::uint64_t room = Residency(impl_->sms).capacity(config);
  const std::uint64_t together = config.cooperative ? config.grid.count() : cluster.count();
  if (together > room) {
    RUNGS_THROW(kUnsupported, "launch of \"", name, "\": ", together, " blocks of ",
                config.block.count(), " threads and ", config.shared_bytes,
                " bytes of shared memory must be resident at once, but ", impl_->sms, " SMs hold ",
                room, "; use a smaller ", config.cooperative ? "grid" : "cluster");
  }
}

void Executor::submit(std::shared_ptr<const LaunchRequest> request, Done done,
                      Dependence dependence) {
  auto launch = std::make_unique<Launch>();
  const gpu::LaunchConfig& config = request->config;
  launch->threads_per_block = static_cast<unsigned>(config.block.count());
  launch->blocks_per_cluster = static_cast<unsigned>(config.cluster.count());
  launch->cluster_count = config.grid.count() / launch->blocks_per_cluster;
  launch->unfinished_clusters = launch->cluster_count;
  launch->options = emulator::options();
  launch->trace = trace::choose(*request, launch->options);
  launch->request = std::move(request);
  launch->done = std::move(done);
  launch->dependence = std::move(dependence);
  launch->untriggered_blocks = config.grid.count();
  sanitizer::release(&launch->start_token);
  const std::lock_guard lock(impl_->mutex);
  const std::uint64_t pieces = launch->cluster_count;
  impl_->launches.push_back(std::move(launch));
  impl_->totals.launches++;
  impl_->in_flight++;
  impl_->offers++;
  // A worker that submits from `done` takes the first cluster itself; another executor's cannot.
  const bool own = this_worker != nullptr && this_worker->belongs_to(*impl_);
  if (!own || pieces > 1) impl_->announce(pieces);
}

void Executor::submit_host(std::function<void()> work, std::function<void()> done) {
  auto piece = std::make_unique<HostWork>();
  piece->work = std::move(work);
  piece->done = std::move(done);
  sanitizer::release(&piece->token);
  const std::lock_guard lock(impl_->mutex);
  impl_->host_work.push_back(std::move(piece));
  impl_->in_flight++;
  impl_->offers++;
  if (this_worker == nullptr || !this_worker->belongs_to(*impl_)) impl_->announce(1);
}

int Executor::sm_count() const { return impl_->sms; }

int Executor::worker_count() const { return static_cast<int>(impl_->threads.size()); }

Counters Executor::counters() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->totals;
}

}  // namespace rungs::emulator
