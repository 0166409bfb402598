#include "hca.hpp"

#include <array>
#include <atomic>

namespace rungs::verbs::soft {
namespace {

// A packet orders memory: what the sender did before it is visible to whoever received it. Through
// a socket ThreadSanitizer cannot see that; this makes it visible to it.
#if defined(RUNGS_SANITIZE_THREAD)
std::atomic<std::uint64_t> network_order{0};
void order_before_send() { network_order.fetch_add(1, std::memory_order_acq_rel); }
void order_after_receive() { network_order.load(std::memory_order_acquire); }
#else
void order_before_send() {}
void order_after_receive() {}
#endif

}  // namespace

bool Hca::transmit(const Connection& connection, Packet packet) {
  packet.destination_qp = connection.remote_qp;
  std::array<std::byte, kMaxPacketBytes> bytes;
  const std::size_t size = encode(packet, wire->local(), connection.peer, bytes);
  order_before_send();
  if (!wire->send(connection.peer, std::span(bytes).first(size))) {
    wire_full = true;
    return false;
  }
  counters.packets_sent.add();
  return true;
}

std::size_t Hca::take_packet(std::span<std::byte> buffer, WireAddress& from) {
  const std::size_t size = wire->receive(buffer, from);
  if (size > 0) order_after_receive();
  return size;
}

}  // namespace rungs::verbs::soft
