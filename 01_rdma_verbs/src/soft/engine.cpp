#include "engine.hpp"

#include <rungs/core/error.hpp>
#include <rungs/core/log.hpp>

#include <pthread.h>
#include <algorithm>
#include <csignal>
#include <exception>

namespace rungs::verbs::soft {
namespace {

constexpr unsigned kPacketsPerTurn = 64;
// Without work the engine looks again for this long, letting others run between two looks, then
// sleeps. It never spins: ranks, engines and programs share few cores, and one that spins takes the
// core from the thread it waits for, or that waits for what it just completed.
constexpr std::chrono::microseconds kAwake{50};
constexpr std::chrono::milliseconds kLongestSleep{100};
constexpr std::chrono::microseconds kSilentSleep{50};  // nobody wakes it for a doorbell
constexpr std::chrono::milliseconds kWireFullSleep{1};

std::unique_ptr<PacketWire> open_wire(const SoftOptions& options, std::uint64_t* dropped) {
  return with_faults(
      options.wire == Wire::kUdp ? open_udp_wire(options) : open_shared_memory_wire(options),
      options, dropped);
}

}  // namespace

Engine::Engine(const SoftOptions& options) : packet_(kMaxPacketBytes) {
  hca_.wire = open_wire(options, &dropped_);
  hca_.now = Clock::now();
  // The program's signal handlers are for its own threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::exception& error) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    RUNGS_THROW(kSystem, "soft HCA: its engine thread does not start: ", error.what());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread_.native_handle(), "rungs-hca");
}

Engine::~Engine() {
  stop_.store(true);
  hca_.wire->wake();
  thread_.join();
}

Engine::Pause::Pause(Engine& engine) {
  engine.pausing_.fetch_add(1);
  lock_ = std::unique_lock(engine.mutex_);
  engine.pausing_.fetch_sub(1);
}

void Engine::add(QpContext& qp) {
  queue_pairs_.push_back(&qp);
  try {
    by_number_.emplace(qp.settings.number, &qp);
  } catch (...) {
    queue_pairs_.pop_back();
    throw;
  }
}

void Engine::remove(QpContext& qp) noexcept {
  by_number_.erase(qp.settings.number);
  queue_pairs_.erase(std::find(queue_pairs_.begin(), queue_pairs_.end(), &qp));
}

void Engine::doorbell_written() noexcept {
  if (asleep_.load(std::memory_order_seq_cst) && asleep_.exchange(false)) hca_.wire->wake();
}

// Exchanges, here and in sleep(), do not need that: of two on one word the later one sees what was
// done before the earlier.
void Engine::raw_doorbell_written() noexcept {
  if (asleep_.exchange(false)) hca_.wire->wake();
}

void Engine::run() {
  try {
    loop();
  } catch (const std::exception& error) {
    log::error("soft HCA: its engine ends, all queue pairs fail: ", error.what());
    fail_everything();
  }
}

void Engine::loop() {
  Clock::time_point last_busy = Clock::now();
  while (!stop_.load(std::memory_order_relaxed)) {
    // A mutex is not fair: without this a busy engine would keep control calls out.
    while (pausing_.load(std::memory_order_relaxed) > 0) std::this_thread::yield();
    bool idle = false;
    {
      const std::lock_guard lock(mutex_);
      if (turn()) last_busy = hca_.now;
      idle = last_busy != hca_.now;
    }
    if (!idle) continue;
    if (Clock::now() - last_busy < kAwake) {
      std::this_thread::yield();
    } else {
      sleep();
    }
  }
}

// One round of everything. Whether anything happened.
bool Engine::turn() {
  hca_.now = Clock::now();
  hca_.wire_full = false;
  bool drained = true;
  bool busy = take_doorbells();
  busy |= take_packets(drained);
  for (QpContext* qp : queue_pairs_) {
    busy |= qp->responder.progress();
    // An answer that is already here is no time-out.
    if (drained) qp->requester.check_timer();
    busy |= qp->requester.progress();
  }
  hca_.counters.packets_dropped.set(std::atomic_ref(dropped_).load(std::memory_order_relaxed));
  return busy;
}

bool Engine::take_doorbells() {
  bool any = false;
  for (QpContext* qp : queue_pairs_) {
    if (!qp->send_queue.doorbell_rang()) continue;
    hca_.counters.doorbells.add();
    qp->requester.doorbell();
    any = true;
  }
  return any;
}

bool Engine::take_packets(bool& drained) {
  WireAddress from;
  for (unsigned n = 0; n < kPacketsPerTurn; ++n) {
    const std::size_t size = hca_.take_packet(packet_, from);
    if (size == 0) return n > 0;
    deliver(std::span(packet_).first(size), from);
  }
  drained = false;
  return true;
}

void Engine::deliver(std::span<const std::byte> bytes, const WireAddress& from) {
  const std::optional<Packet> packet = decode(bytes, from, hca_.wire->local());
  const auto found = packet ? by_number_.find(packet->destination_qp) : by_number_.end();
  // Only the connected peer may speak to a queue pair. (Its source port says nothing: RoCE spreads
  // flows over it.)
  if (found == by_number_.end() || found->second->state() == QpState::kReset ||
      found->second->connection.peer.gid != from.gid) {
    hca_.counters.packets_rejected.add();
    return;
  }
  hca_.counters.packets_received.add();
  if (is_response(packet->opcode)) {
    found->second->requester.receive(*packet);
  } else {
    found->second->responder.receive(*packet);
  }
}

void Engine::sleep() {
  asleep_.exchange(true);
  Clock::time_point until = Clock::now() + kLongestSleep;
  bool rang = false;
  {
    const std::lock_guard lock(mutex_);
    for (const QpContext* qp : queue_pairs_) {
      until = std::min(until, qp->requester.next_timer());
      rang = rang || qp->send_queue.doorbell_waits();
    }
    if (hca_.wire_full) until = std::min(until, hca_.now + kWireFullSleep);
    if (silent_doorbells_) until = std::min(until, hca_.now + kSilentSleep);
  }
  const std::chrono::duration<double> left = until - Clock::now();
  if (!rang && left.count() > 0) hca_.wire->wait(left.count());
  asleep_.store(false, std::memory_order_relaxed);
}

void Engine::fail_everything() noexcept {
  const std::lock_guard lock(mutex_);
  for (QpContext* qp : queue_pairs_) qp->fail();
}

WireCounters Engine::counters() const noexcept {
  const Counters& counted = hca_.counters;
  WireCounters result;
  result.packets_sent = counted.packets_sent.get();
  result.packets_received = counted.packets_received.get();
  result.packets_dropped = counted.packets_dropped.get();
  result.packets_rejected = counted.packets_rejected.get();
  result.retransmissions = counted.retransmissions.get();
  result.naks_sent = counted.naks_sent.get();
  result.doorbells = counted.doorbells.get();
  result.wqes = counted.wqes.get();
  result.cqes = counted.cqes.get();
  return result;
}

}  // namespace rungs::verbs::soft
