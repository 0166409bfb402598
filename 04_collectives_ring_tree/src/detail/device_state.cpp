#include "detail/device_state.hpp"

#include <rungs/core/deadline.hpp>
#include <rungs/gpu/stream.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>

namespace rungs::collectives::detail {
namespace {

constexpr std::size_t kWordsPerLine = 16;
constexpr auto kSimple = static_cast<std::size_t>(ProtocolId::kSimple);

std::size_t pairs(const Layout& layout) {
  return static_cast<std::size_t>(layout.channels()) * static_cast<std::size_t>(layout.ranks());
}

}  // namespace

DeviceState::DeviceState(const gpu::Device& device, const Layout& layout, gpu::StreamHandle stream)
    : layout_(layout),
      links_(device, layout.total_bytes(), stream),
      device_(device),
      steps_(device, 2 * pairs(layout) * kWordsPerLine),
      sides_(device, 2 * pairs(layout)),
      rings_(device, pairs(layout)),
      places_(device, static_cast<std::size_t>(layout.channels())),
      scratch_(device, static_cast<std::size_t>(layout.channels()) * layout.slot_bytes()[kSimple]),
      claim_(device, 1),
      communicator_(device, 1) {
  gpu::fill_async(steps_.data(), 0, steps_.size_bytes(), stream);
  gpu::fill_async(claim_.data(), 0, claim_.size_bytes(), stream);
  gpu::synchronize(stream);
}

void DeviceState::publish(int rank, const std::vector<std::vector<int>>& rings, Control& control,
                          std::uint64_t timeout_ns, gpu::StreamHandle stream) {
  const auto word = [&](int owner, std::size_t offset) {
    return reinterpret_cast<std::uint64_t*>(links_.of(owner) + offset);
  };
  std::vector<LinkSide> sides(2 * pairs(layout_));
  for (int c = 0; c < layout_.channels(); ++c) {
    for (int peer = 0; peer < layout_.ranks(); ++peer) {
      if (peer == rank) continue;
      const std::size_t sending = index(c, peer);
      const std::size_t receiving = pairs(layout_) + sending;
      LinkSide& send = sides[sending];
      LinkSide& recv = sides[receiving];
      for (int p = 0; p < kMaxProtocols; ++p) {
        send.buffer[p] = links_.of(peer) + layout_.slots(peer, c, rank, p);
        recv.buffer[p] = links_.of(rank) + layout_.slots(rank, c, peer, p);
      }
      send.tail = word(peer, layout_.tail(peer, c, rank));
      send.head = word(rank, layout_.head(rank, c, peer));
      send.step = steps_.data() + sending * kWordsPerLine;
      recv.tail = word(rank, layout_.tail(rank, c, peer));
      recv.head = word(peer, layout_.head(peer, c, rank));
      recv.step = steps_.data() + receiving * kWordsPerLine;
    }
  }
  std::vector<int> order;
  std::vector<int> places;
  for (const std::vector<int>& ring : rings) {
    order.insert(order.end(), ring.begin(), ring.end());
    places.push_back(static_cast<int>(std::find(ring.begin(), ring.end(), rank) - ring.begin()));
  }
  sides_.upload(sides, stream);
  rings_.upload(order, stream);
  places_.upload(places, stream);

  DeviceCommunicator communicator{};
  communicator.rank = rank;
  communicator.size = layout_.ranks();
  communicator.channels = layout_.channels();
  communicator.send = sides_.data();
  communicator.recv = sides_.data() + pairs(layout_);
  communicator.ring = rings_.data();
  communicator.place = places_.data();
  communicator.scratch = scratch_.data();
  for (std::size_t p = 0; p < kMaxProtocols; ++p)
    communicator.slot_bytes[p] = static_cast<std::uint32_t>(layout_.slot_bytes()[p]);
  communicator.abort = &control.abort;
  communicator.claim = claim_.data();
  communicator.fault = &control.fault;
  communicator.timeout_ns = timeout_ns;
  communicator_.upload(std::span<const DeviceCommunicator>(&communicator, 1), stream);
}

std::vector<std::uint64_t> DeviceState::slots_sent() const {
  const gpu::Stream stream(device_);
  const std::vector<std::uint64_t> steps = steps_.download(stream);
  std::vector<std::uint64_t> sent(static_cast<std::size_t>(layout_.ranks()), 0);
  for (int c = 0; c < layout_.channels(); ++c) {
    for (int peer = 0; peer < layout_.ranks(); ++peer)
      sent[static_cast<std::size_t>(peer)] += steps[index(c, peer) * kWordsPerLine];
  }
  return sent;
}

bool DeviceState::sent_was_taken(const bootstrap::Group& group, const Deadline& deadline,
                                 const std::function<bool()>& over) {
  const int rank = group.rank();
  std::vector<int> others;
  for (int peer = 0; peer < group.size(); ++peer) {
    if (!group.same_process(peer)) others.push_back(peer);
  }
  if (others.empty()) return true;
  const gpu::Stream stream(device_);
  const std::vector<std::uint64_t> steps = steps_.download(stream, deadline);
  const auto taken = std::make_shared<std::uint64_t>(0);
  Backoff backoff;
  for (int c = 0; c < layout_.channels(); ++c) {
    for (const int peer : others) {
      const std::uint64_t sent = steps[index(c, peer) * kWordsPerLine];
      const std::byte* const head = links_.of(rank) + layout_.head(rank, c, peer);
      for (;;) {
        gpu::copy_async(taken.get(), head, sizeof(*taken), stream);
        gpu::detail::synchronize_or_keep(taken, stream, deadline);
        if (*taken >= sent) break;
        if (over() || deadline.passed()) return false;
        backoff.pause();
      }
    }
  }
  return true;
}

}  // namespace rungs::collectives::detail
