#include <rungs/symmetric/context.hpp>

#include <rungs/collectives/all_well.hpp>
#include <rungs/collectives/peer_memory.hpp>
#include <rungs/collectives/watch.hpp>
#include <rungs/core/log.hpp>
#include <rungs/gpu/buffer.hpp>
#include <rungs/gpu/graph.hpp>
#include <rungs/gpu/stream.hpp>

#include "barrier.hpp"
#include "network/network_part.hpp"
#include "terms.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <span>
#include <vector>

namespace rungs::symmetric {
namespace {

constexpr std::size_t kAlign = 256;

// A fault record of this stage in words.
std::string describe_wait(const gpu::Fault& fault) {
  const std::string who =
      concat("symmetric: rank ", fault.rank, " waited for rank ", fault.peer, ": ");
  switch (static_cast<Awaited>(fault.reserved)) {
    case Awaited::kSignal:
      return concat(who, "its signal at heap offset ", std::uint64_t{fault.slot} * 8, ", ",
                    fault.expected, " expected, ", fault.seen, " seen");
    case Awaited::kBarrier:
      return concat(who, "barrier ", fault.expected, ", it has reached ", fault.seen);
    case Awaited::kQueueSlot:
      return concat(who, "room in the network queue to it for request ", fault.slot, ", ",
                    fault.expected, " requests expected to be done, ", fault.seen, " seen");
    case Awaited::kCompletion:
      return concat(who, "the network requests to it, ", fault.expected, " expected to be done, ",
                    fault.seen, " seen");
  }
  return who;
}

}  // namespace

struct Context::State {
  State(bootstrap::Group& its_group, const gpu::Device& its_device, const ContextOptions& options);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  [[nodiscard]] bool over_the_network(int peer) const {
    return peer != group.rank() && (!options.map_peers || !group.same_host(peer));
  }
  void reach_peers(const std::vector<int>& ordinals);
  void publish(gpu::StreamHandle stream);
  void* take(std::size_t size_bytes);

  bootstrap::Group& group;
  gpu::Device device;
  ContextOptions options;
  std::vector<int> network_peers;
  std::unique_ptr<collectives::PeerMemory> heap;
  gpu::Buffer<collectives::Control> control;
  gpu::Buffer<std::uint32_t> claim;
  gpu::Buffer<std::uint64_t> barrier_epoch;
  gpu::Buffer<DeviceContext> on_device;
  std::unique_ptr<detail::NetworkPart> network;
  std::unique_ptr<collectives::Watch> watch;
  std::size_t used_bytes = 0;
  std::uint64_t places = 14695981039346656037ull;  // hash of where allocations begin (FNV-1a)
  int exceptions = std::uncaught_exceptions();
};

Context::State::State(bootstrap::Group& its_group, const gpu::Device& its_device,
                      const ContextOptions& its_options)
    : group(its_group),
      device(its_device),
      options(its_options),
      control(its_device, 1, gpu::Space::kHostMapped),
      claim(its_device, 1),
      barrier_epoch(its_device, 1),
      on_device(its_device, 1) {
  const gpu::Stream stream(device);
  for (int peer = 0; peer < group.size(); ++peer) {
    if (over_the_network(peer)) network_peers.push_back(peer);
  }

  // 1. What may fail on this rank alone comes before anybody waits for it; all ranks hear of it.
  std::string problem;
  ErrorCode code = ErrorCode::kInternal;
  const auto attempt = [&](const auto& step) {
    try {
      step();
    } catch (const Error& error) {
      code = error.code();
      problem = error.message();
    }
  };
  attempt([&] {
    detail::check_options(options, group.size());
    // The software HCA is a CPU thread: on a real GPU it reaches pinned host memory only.
    const bool pinned = RUNGS_GPU_CUDA != 0 && !network_peers.empty();
    heap = std::make_unique<collectives::PeerMemory>(
        device, options.heap_bytes, stream, pinned ? gpu::Space::kHostMapped : gpu::Space::kShared);
    gpu::fill_async(claim.data(), 0, claim.size_bytes(), stream);
    gpu::fill_async(barrier_epoch.data(), 0, barrier_epoch.size_bytes(), stream);
    gpu::synchronize(stream);
  });
  collectives::all_well(group, code, problem);

  // 2. Agree, map the peers of this host, connect to the others.
  const std::vector<int> ordinals = detail::agree(group, device, options);
  problem = heap->connect(group, ordinals, options.map_peers);
  code = ErrorCode::kUnsupported;
  collectives::all_well(group, code, problem);
  if (!network_peers.empty()) {
    network = std::make_unique<detail::NetworkPart>(group, device, options, heap->of(group.rank()),
                                                    options.heap_bytes, network_peers);
  }

  // 3. Tell the kernels, and load the barrier's: nothing may be loaded while a peer's kernel waits.
  code = ErrorCode::kInternal;
  attempt([&] {
    watch = std::make_unique<collectives::Watch>(
        group, *control.data(),
        collectives::WatchOptions{options.timeout_seconds * timeout_scale(), &describe_wait,
                                  [this]() -> std::optional<std::string> {
                                    if (!network) return std::nullopt;
                                    const auto failure = network->failure();
                                    if (!failure) return std::nullopt;
                                    return failure->text;
                                  }});
    publish(stream);
    detail::enqueue_barrier(on_device.data(), false, stream);
    gpu::synchronize(stream);
  });
  collectives::all_well(group, code, problem);
}

void Context::State::publish(gpu::StreamHandle stream) {
  DeviceContext context{};
  context.rank = group.rank();
  context.size = group.size();
  context.network = options.network;
  context.heap_bytes = options.heap_bytes;
  for (int rank = 0; rank < group.size(); ++rank)
    context.heap[rank] = over_the_network(rank) ? nullptr : heap->of(rank);
  context.barrier_epoch = barrier_epoch.data();
  context.barrier_flags = static_cast<std::uint64_t*>(
      take(static_cast<std::size_t>(group.size()) * sizeof(std::uint64_t)));
  context.abort = &control.data()->abort;
  context.claim = claim.data();
  context.fault = &control.data()->fault;
  context.timeout_ns = static_cast<std::uint64_t>(options.timeout_seconds * timeout_scale() * 1e9);
  if (network) network->fill(context);
  on_device.upload(std::span<const DeviceContext>(&context, 1), stream);
}

void* Context::State::take(std::size_t size_bytes) {
  const std::size_t begin = (used_bytes + kAlign - 1) / kAlign * kAlign;
  RUNGS_REQUIRE(size_bytes <= options.heap_bytes && begin <= options.heap_bytes - size_bytes,
                "symmetric: the heap has ", options.heap_bytes, " bytes, ", used_bytes,
                " are taken, and ", size_bytes,
                " more do not fit; give ContextOptions::heap_bytes more");
  used_bytes = begin + size_bytes;
  places = (places ^ begin) * 1099511628211ull;
  return heap->of(group.rank()) + begin;
}

Context::State::~State() {
  if (std::uncaught_exceptions() > exceptions)
    watch->abort("its symmetric context was destroyed while an exception was thrown");
  // Longer than any kernel waits.
  const Deadline deadline =
      Deadline::after(std::chrono::duration<double>(options.timeout_seconds + 10));
  try {
    const auto over = [&] { return watch->error().has_value(); };
    // Nobody frees a heap that a peer may still write to.
    if (!over() && network) network->drain(deadline, over);
    if (over()) {
      // Kernels end at their next look at the abort word, which must still be there.
      heap->keep_for_late_writers();
      device.synchronize(deadline);
    } else {
      group.barrier(deadline);
    }
  } catch (const std::exception& error) {
    log::error("symmetric: while rank ", group.rank(), " leaves: ", error.what());
    heap->keep_for_late_writers();
  }
}

Context::Context(bootstrap::Group& group, const gpu::Device& device, const ContextOptions& options)
    : state_(std::make_unique<State>(group, device, options)) {}
Context::~Context() = default;
Context::Context(Context&&) noexcept = default;
Context& Context::operator=(Context&&) noexcept = default;

int Context::rank() const noexcept { return state_->group.rank(); }
int Context::size() const noexcept { return state_->group.size(); }
const gpu::Device& Context::device() const noexcept { return state_->device; }
bootstrap::Group& Context::group() const noexcept { return state_->group; }

Reach Context::reach(int peer) const {
  RUNGS_REQUIRE(peer >= 0 && peer < size(), "symmetric: peer = ", peer, "; 0 to ", size() - 1);
  if (peer == rank()) return Reach::kSelf;
  return state_->over_the_network(peer) ? Reach::kNetwork : Reach::kMapped;
}

void* Context::allocate_bytes(std::size_t size_bytes, std::size_t alignment) {
  RUNGS_REQUIRE(alignment <= kAlign, "symmetric: alignment = ", alignment, "; at most ", kAlign);
  return state_->take(size_bytes);
}

void Context::seal() {
  struct Taken {
    std::uint64_t bytes;
    std::uint64_t places;
  };
  const std::vector<Taken> all =
      state_->group.all_gather(Taken{state_->used_bytes, state_->places});
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const bool same = all[rank].bytes == all[0].bytes && all[rank].places == all[0].places;
    RUNGS_REQUIRE(same, "symmetric: rank 0 has allocated ", all[0].bytes,
                  " bytes of its heap, rank ", rank, " ", all[rank].bytes,
                  all[rank].bytes == all[0].bytes ? " at other places" : "",
                  "; all ranks must make the same allocations in the same order");
  }
}

const DeviceContext* Context::on_device() const noexcept { return state_->on_device.data(); }

void Context::barrier(gpu::StreamHandle stream) {
  state_->watch->check();
  detail::enqueue_barrier(on_device(), true, stream);
}

void Context::synchronize(gpu::StreamHandle stream, const Deadline& deadline) {
  gpu::synchronize(stream, deadline);
  state_->watch->check_results();
}

std::optional<Error> Context::async_error() const {
  const std::optional<collectives::AsyncError> error = state_->watch->error();
  if (!error) return std::nullopt;
  return Error(error->code, error->text, __FILE__, __LINE__);
}

void Context::abort(const std::string& reason) noexcept { state_->watch->abort(reason); }

verbs::WireCounters Context::wire() const noexcept {
  return state_->network ? state_->network->wire() : verbs::WireCounters{};
}

}  // namespace rungs::symmetric
