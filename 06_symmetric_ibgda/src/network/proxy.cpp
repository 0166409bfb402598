#include "network/proxy.hpp"

#include <rungs/core/error.hpp>
#include <rungs/core/log.hpp>
#include <rungs/gpu/stream.hpp>

#include <pthread.h>
#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <exception>
#include <memory>
#include <span>

namespace rungs::symmetric::detail {
namespace {

void store_release(std::uint64_t* word, std::uint64_t value) {
  std::atomic_ref(*word).store(value, std::memory_order_release);
}
std::uint64_t load_acquire(std::uint64_t* word) {
  return std::atomic_ref(*word).load(std::memory_order_acquire);
}

}  // namespace

Proxy::Proxy(const gpu::Device& device, int rank, int size, std::vector<Connection>& connections,
             const LocalMemory& local, std::uint32_t slots, std::uint64_t max_message_bytes)
    : device_(device),
      rank_(rank),
      connections_(connections),
      by_peer_(static_cast<std::size_t>(size), nullptr),
      local_(local),
      slots_(slots),
      max_message_bytes_(max_message_bytes),
      ring_(device, slots, gpu::Space::kHostMapped),
      counts_(device, static_cast<std::size_t>(1 + size) * kProxyDoneStride,
              gpu::Space::kHostMapped),
      posted_(device, static_cast<std::size_t>(size)),
      snapshot_(device, static_cast<std::size_t>(size), gpu::Space::kHostMapped),
      queue_(device, 1),
      forwarded_(static_cast<std::size_t>(size), 0) {
  for (Connection& connection : connections)
    by_peer_[static_cast<std::size_t>(connection.peer)] = &connection;
  std::uninitialized_default_construct_n(ring_.data(), ring_.size());
  std::memset(counts_.data(), 0, counts_.size_bytes());
  ProxyQueue queue{};
  queue.slots = ring_.data();
  queue.taken = counts_.data();
  queue.done = done(0);
  queue.posted = posted_.data();
  queue.slot_count = slots;
  const gpu::Stream stream(device);
  gpu::fill_async(posted_.data(), 0, posted_.size_bytes(), stream);
  queue_.upload({&queue, 1}, stream);

  // The program's signal handlers are for its own threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::exception& error) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    RUNGS_THROW(kSystem, "the proxy thread does not start: ", error.what());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread_.native_handle(), "rungs-proxy");
}

Proxy::~Proxy() {
  stop_.store(true);
  thread_.join();
}

void Proxy::run() {
  log::set_rank(rank_);
  // Spins for some microseconds, yields, then sleeps longer and longer: nobody wakes it, because a
  // GPU cannot.
  Backoff backoff;
  while (!stop_.load(std::memory_order_relaxed)) {
    bool moved = take_completions();
    moved |= forward();
    if (moved) {
      backoff.reset();
    } else {
      backoff.pause();
    }
  }
}

// Requests of a peer complete in order: an id is the count of its finished descriptors.
bool Proxy::take_completions() {
  std::array<verbs::Completion, 32> completions;
  bool any = false;
  for (Connection& connection : connections_) {
    const std::size_t count = connection.completions.poll(completions);
    any = any || count > 0;
    for (const verbs::Completion& completion : std::span(completions).first(count)) {
      if (completion.status != verbs::Status::kSuccess) {
        fail({connection.peer,
              describe_failure(connection, completion.opcode, completion.id, completion.status)});
      } else if (completion.id > 0) {
        store_release(done(connection.peer), completion.id);
      }
    }
  }
  return any;
}

bool Proxy::take_descriptor() {
  ProxyDescriptor& slot = ring_.data()[taken_ & (slots_ - 1)];
  if (load_acquire(&slot.sequence) != taken_ + 1) return false;
  work_ = Work{slot};
  store_release(counts_.data(), ++taken_);
  return true;
}

// Posts until the ring is empty or a send queue full. Whether anything moved.
bool Proxy::forward() {
  bool moved = false;
  while (work_ || take_descriptor()) {
    Connection* const connection = by_peer_[static_cast<std::size_t>(work_->descriptor.peer)];
    bool finished = false;
    if (!post_next(*connection, finished)) return moved;
    moved = true;
    if (finished) work_.reset();
  }
  return moved;
}

// Posts the next request of work_. False: the queue is full.
bool Proxy::post_next(Connection& connection, bool& finished) {
  ProxyDescriptor& descriptor = work_->descriptor;
  const std::uint64_t left = descriptor.bytes - work_->sent_bytes;
  const bool signals = (descriptor.operations & (kProxySignalSet | kProxySignalAdd)) != 0;
  verbs::SendRequest request;
  verbs::Segment segment;
  if (left > 0) {
    const std::uint64_t piece = std::min(left, max_message_bytes_);
    segment = {
        static_cast<std::byte*>(local_.heap.data()) + descriptor.local_offset + work_->sent_bytes,
        static_cast<std::uint32_t>(piece), local_.heap.lkey()};
    request.opcode = (descriptor.operations & kProxyGet) != 0 ? verbs::Opcode::kRdmaRead
                                                              : verbs::Opcode::kRdmaWrite;
    request.remote_address = connection.remote_heap + descriptor.remote_offset + work_->sent_bytes;
    work_->sent_bytes += piece;
    finished = piece == left && !signals;
  } else if ((descriptor.operations & kProxySignalAdd) != 0) {
    segment = local_.scratch.segment(0, kSignalBytes);
    request.opcode = verbs::Opcode::kFetchAdd;
    request.remote_address = connection.remote_heap + descriptor.signal_offset;
    request.add_or_swap = descriptor.value;
    finished = true;
  } else {
    segment = {&descriptor.value, kSignalBytes, 0};
    request.opcode = verbs::Opcode::kRdmaWrite;
    request.inline_data = true;
    request.remote_address = connection.remote_heap + descriptor.signal_offset;
    finished = true;
  }
  request.segments = {&segment, 1};
  request.rkey = connection.remote_key;
  std::uint64_t& forwarded = forwarded_[static_cast<std::size_t>(connection.peer)];
  request.id = finished ? forwarded + 1 : 0;
  const verbs::PostResult result = connection.pair.post_send(request);
  if (result.error == verbs::PostError::kQueueFull) {
    if (left > 0) work_->sent_bytes -= segment.size_bytes;
    return false;
  }
  if (result.error != verbs::PostError::kNone) {
    // A queue pair that failed: its completions say why.
    finished = true;
    if (!connection.pair.failed()) {
      fail({connection.peer, concat("a request from rank ", rank_, " to rank ", connection.peer,
                                    " is refused: ", verbs::to_string(result.error))});
    }
  }
  if (finished) ++forwarded;
  return true;
}

void Proxy::fail(NetworkFailure failure) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(failure);
}

std::optional<NetworkFailure> Proxy::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

bool Proxy::drain(const Deadline& deadline, const std::function<bool()>& over) {
  const gpu::Stream stream(device_);
  gpu::copy_async(snapshot_.data(), posted_.data(), posted_.size_bytes(), stream);
  gpu::synchronize(stream, deadline);
  Backoff backoff;
  for (const Connection& connection : connections_) {
    const std::uint64_t posted = snapshot_.data()[connection.peer];
    while (load_acquire(done(connection.peer)) < posted) {
      if (over() || deadline.passed() || failure()) return false;
      backoff.pause();
    }
  }
  return true;
}

}  // namespace rungs::symmetric::detail
