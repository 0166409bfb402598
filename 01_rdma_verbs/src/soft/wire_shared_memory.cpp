// Packets between devices of one host, threads or processes, through rings of shared memory.
//
// A device listens on a Unix socket in the abstract name space (no file) that is named by its Gid.
// Who sends to it for the first time makes a ring in a memfd (no file either) and hands it over:
//
//   sender                                             receiver
//   memfd + mapping ── connect, {Gid, descriptor} ──>  accept, map
//   packets ───────────── ring ────────────────────>
//   "you were asleep" ──── a byte on the socket ────>  its poll() returns
//   <───────── a byte on the socket, "there is room" ──
//
// A process that dies closes its sockets: the other end sees it, reads what is left in the ring and
// frees the memory. Memory: one ring (512 KiB) a sender and receiver that have spoken.

#include "ring_socket.hpp"
#include "shared_ring.hpp"
#include "wake_event.hpp"
#include "wire.hpp"

#include <rungs/core/error.hpp>
#include <rungs/core/log.hpp>
#include <rungs/core/random_bytes.hpp>

#include <sys/epoll.h>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace rungs::verbs::soft {
namespace {

constexpr int kBacklog = 1024;             // connections that a busy engine has not accepted yet
constexpr unsigned kServiceInterval = 64;  // calls of receive() between two looks at the sockets

// A name nobody else has, in the form of a unique local IPv6 address (fd00::/8).
Gid random_gid() {
  Gid gid{};
  fill_random(std::as_writable_bytes(std::span(gid)));
  gid[0] = 0xfd;
  return gid;
}

class SharedMemoryWire final : public PacketWire {
 public:
  SharedMemoryWire() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    local_.gid = random_gid();
    listener_ = listen_as(local_.gid, kBacklog);
    if (!listener_ || !wake_ || !epoll_ || !watch(listener_)) {
      RUNGS_THROW(kSystem, "the shared-memory wire's sockets: ", std::strerror(errno));
    }
  }

  WireAddress local() const override { return local_; }

  bool send(const WireAddress& to, std::span<const std::byte> packet) override {
    const std::lock_guard lock(mutex_);
    auto found = outgoing_.find(to.gid);
    if (found == outgoing_.end()) {
      if (!greet(to.gid)) return false;
      found = outgoing_.find(to.gid);
    }
    std::optional<Outgoing>& peer = found->second;
    if (!peer) return true;  // gone
    if (!peer->ring.push(packet)) {
      service();  // is it alive?
      return !peer;
    }
    if (peer->ring.take_receiver_sleeps()) ring_bell(peer->socket);
    return true;
  }

  std::size_t receive(std::span<std::byte> into, WireAddress& from) override {
    const std::lock_guard lock(mutex_);
    if (++calls_ % kServiceInterval == 0) service();
    // One packet a peer in turn: no peer starves the others.
    for (std::size_t tried = 0; tried < incoming_.size(); ++tried) {
      next_ = next_ + 1 < incoming_.size() ? next_ + 1 : 0;
      Incoming& peer = *incoming_[next_];
      if (!peer.ring) continue;
      const std::optional<std::size_t> size = peer.ring->pop(into);
      if (!size) log::warn("what a peer wrote into its ring are no packets: it is cut off");
      if (!size || (*size == 0 && !peer.socket)) {  // or gone, and all it sent is read
        remove_incoming(next_);
        continue;
      }
      if (peer.socket && peer.ring->take_sender_blocked()) ring_bell(peer.socket);
      if (*size != 0) {
        from = {peer.from, 0};
        return *size;
      }
    }
    return 0;
  }

  void wait(double seconds) override {
    bool something = false;
    {
      const std::lock_guard lock(mutex_);
      waiting_ = true;
      for (const auto& peer : incoming_) {
        if (!peer->ring) continue;
        if (peer->socket) peer->ring->set_sleeps(true);
        something = something || !peer->ring->empty();
      }
    }
    if (!something) {
      std::array<pollfd, 2> fds{{{epoll_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}}};
      poll_for(fds, seconds);
      if ((fds[1].revents & POLLIN) != 0) wake_.drain();
    }
    const std::lock_guard lock(mutex_);
    waiting_ = false;
    for (const auto& peer : incoming_) {
      if (peer->ring && peer->socket) peer->ring->set_sleeps(false);
    }
    service();
  }

  void wake() noexcept override { wake_.signal(); }

 private:
  struct Outgoing {
    Descriptor socket;
    RingSender ring;
  };
  struct Incoming {
    Descriptor socket;                 // closed: the peer is gone
    std::optional<RingReceiver> ring;  // nothing: its hello has not come yet
    Gid from{};
  };

  bool watch(const Descriptor& fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd.get();
    return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd.get(), &event) == 0;
  }

  // Connects to a device and hands it a ring; a device that is not there is noted as gone. False:
  // its backlog is full.
  bool greet(const Gid& gid) {
    Descriptor socket = connect_to(gid);
    if (!socket && (errno == EAGAIN || errno == EINTR)) return false;
    std::optional<Outgoing>& peer = outgoing_[gid];
    if (!socket && errno == ECONNREFUSED) return true;
    Descriptor file;
    std::shared_ptr<RingMemory> memory;
    if (socket) memory = RingMemory::create(file);
    if (!memory || !send_hello(socket, local_.gid, file) || !watch(socket)) {
      log::warn("no ring to a peer on this host, whose packets are lost: ", std::strerror(errno));
      return true;
    }
    peer.emplace(Outgoing{std::move(socket), RingSender(std::move(memory))});
    return true;
  }

  // Looks at every socket on which something happened. What it takes from them a thread in wait()
  // no longer sees, so that one is woken.
  void service() {
    std::array<epoll_event, 16> events;
    const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), 0);
    for (int i = 0; i < count; ++i) {
      const int fd = events[static_cast<std::size_t>(i)].data.fd;
      if (fd == listener_.get()) {
        accept_all();
      } else if (!hear_incoming(fd)) {
        hear_outgoing(fd);
      }
    }
    if (count > 0 && waiting_) wake();
  }

  void accept_all() {
    while (Descriptor socket = accept_own(listener_)) {
      if (!watch(socket)) continue;
      auto peer = std::make_unique<Incoming>();
      peer->socket = std::move(socket);
      incoming_.push_back(std::move(peer));
      hear_incoming(incoming_.back()->socket.get());
    }
  }

  bool hear_incoming(int fd) {
    for (std::size_t i = 0; i < incoming_.size(); ++i) {
      Incoming& peer = *incoming_[i];
      if (peer.socket.get() != fd) continue;
      if (!peer.ring) {
        if (!welcome(peer)) remove_incoming(i);
      } else if (take_bells(peer.socket) == Heard::kEnd) {
        close(peer.socket);  // receive() reads the rest of the ring, then removes it
      }
      return true;
    }
    return false;
  }

  void hear_outgoing(int fd) {
    for (auto& [gid, peer] : outgoing_) {
      if (!peer || peer->socket.get() != fd) continue;
      if (take_bells(peer->socket) == Heard::kEnd) {
        close(peer->socket);
        peer.reset();
      }
      return;
    }
  }

  // False: what came is no hello with a ring. One that has not come yet is no error.
  static bool welcome(Incoming& peer) {
    Hello hello;
    const Heard heard = take_hello(peer.socket, hello);
    if (heard != Heard::kSomething) return heard == Heard::kNothing;
    std::shared_ptr<RingMemory> memory = RingMemory::map(hello.ring);
    if (!memory) return false;
    peer.from = hello.from;
    peer.ring.emplace(std::move(memory));
    return true;
  }

  // Not left to ~Descriptor: a forked child may hold the socket open, and epoll would go on.
  void close(Descriptor& socket) {
    if (!socket) return;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket.get(), nullptr);
    socket = Descriptor();
  }

  void remove_incoming(std::size_t index) {
    close(incoming_[index]->socket);
    incoming_.erase(incoming_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  Descriptor listener_;
  WakeEvent wake_;
  Descriptor epoll_;  // the listener and every connection
  WireAddress local_;
  std::mutex mutex_;  // wait() runs beside the others; not held while it sleeps
  bool waiting_ = false;
  std::map<Gid, std::optional<Outgoing>> outgoing_;  // without a value: the peer is gone
  std::vector<std::unique_ptr<Incoming>> incoming_;
  std::size_t next_ = 0;
  unsigned calls_ = 0;
};

}  // namespace

std::unique_ptr<PacketWire> open_shared_memory_wire(const SoftOptions&) {
  return std::make_unique<SharedMemoryWire>();
}

}  // namespace rungs::verbs::soft
