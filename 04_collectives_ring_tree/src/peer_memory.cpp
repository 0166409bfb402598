#include <rungs/collectives/peer_memory.hpp>

#include <rungs/core/descriptor.hpp>
#include <rungs/core/error.hpp>
#include <rungs/gpu/stream.hpp>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <span>
#include <utility>

namespace rungs::collectives {
namespace {

constexpr std::uint64_t kTag = 0x636f6c6c;  // "coll"

/// What a rank tells the others of its memory.
struct Contact {
  std::uint64_t token;  // under which ranks of the same process find it
};

/// Sizes of an exported allocation; the descriptor travels beside them.
struct Extent {
  std::uint64_t size_bytes;
  std::uint64_t offset_bytes;
};

using Memory = std::shared_ptr<gpu::Buffer<std::byte>>;

/// Memory that ranks of this process offer each other while they connect.
struct Offers {
  std::mutex mutex;
  std::map<std::uint64_t, Memory> by_token;
};
Offers& offers() {
  static Offers all;
  return all;
}

/// Offers `memory` as long as it lives.
class Offer {
 public:
  explicit Offer(Memory memory) {
    static std::atomic<std::uint64_t> next = 1;
    token_ = next.fetch_add(1);
    const std::lock_guard lock(offers().mutex);
    offers().by_token.emplace(token_, std::move(memory));
  }
  ~Offer() {
    const std::lock_guard lock(offers().mutex);
    offers().by_token.erase(token_);
  }
  Offer(const Offer&) = delete;
  Offer& operator=(const Offer&) = delete;
  [[nodiscard]] std::uint64_t token() const { return token_; }

 private:
  std::uint64_t token_ = 0;
};

Memory take_offer(std::uint64_t token) {
  const std::lock_guard lock(offers().mutex);
  const auto found = offers().by_token.find(token);
  RUNGS_ASSERT(found != offers().by_token.end(), "no memory is offered under token ", token);
  return found->second;
}

}  // namespace

PeerMemory::PeerMemory(const gpu::Device& device, std::size_t size_bytes, gpu::StreamHandle stream,
                       gpu::Space space)
    : device_(device),
      own_(std::make_shared<gpu::Buffer<std::byte>>(device, size_bytes, space)) {
  if (size_bytes > 0) gpu::fill_async(own_->data(), 0, size_bytes, stream);
  gpu::synchronize(stream);
}

std::string PeerMemory::connect(bootstrap::Group& group, const std::vector<int>& ordinals,
                                bool wanted) {
  const int rank = group.rank();
  const auto ranks = static_cast<std::size_t>(group.size());
  bases_.assign(ranks, nullptr);
  bases_[static_cast<std::size_t>(rank)] = own_->data();
  const auto mapped = [&](int peer) { return wanted && peer != rank && group.same_host(peer); };
  std::string problem;
  try {
    // 1. Ranks of this process pass their memory on by token.
    const Offer offer(own_);
    const std::vector<Contact> contacts = group.all_gather(Contact{offer.token()});
    for (int peer = 0; peer < group.size(); ++peer) {
      const auto index = static_cast<std::size_t>(peer);
      if (!mapped(peer)) continue;
      if (!group.same_process(peer)) {
        has_other_processes_ = true;
        continue;
      }
      peers_in_process_.push_back(take_offer(contacts[index].token));
      bases_[index] = peers_in_process_.back()->data();
      if (problem.empty() && ordinals[index] != device_.ordinal())
        problem = reach(gpu::Device::open(ordinals[index]), peer);
    }
    // 2. Other processes get a descriptor: to the one `step` further, from the one `step` before.
    for (int step = 1; step < group.size(); ++step) {
      const int to = (rank + step) % group.size();
      const int from = (rank - step + group.size()) % group.size();
      if (mapped(to) && !group.same_process(to)) {
        const gpu::ExportedMemory exported = gpu::export_memory(device_, own_->data());
        const Descriptor descriptor(exported.fd);
        const Extent extent{exported.size_bytes, exported.offset_bytes};
        group.send(to, kTag, std::as_bytes(std::span(&extent, 1)));
        group.send_fd(to, kTag, descriptor.get());
      }
      if (mapped(from) && !group.same_process(from)) {
        const std::vector<std::byte> message = group.receive(from, kTag);
        const Descriptor descriptor(group.receive_fd(from, kTag));
        Extent extent{};
        RUNGS_ASSERT(message.size() == sizeof(extent), "a message of ", message.size(), " bytes");
        std::memcpy(&extent, message.data(), sizeof(extent));
        mappings_.emplace_back(
            device_, gpu::ExportedMemory{descriptor.get(), extent.size_bytes, extent.offset_bytes});
        bases_[static_cast<std::size_t>(from)] = static_cast<std::byte*>(mappings_.back().data());
      }
    }
    // 3. Nobody withdraws an offer before all have taken it.
    group.barrier();
  } catch (const Error& error) {
    group.abort(concat("rank ", rank, " could not map its peers' memory: ", error.message()));
    throw;
  }
  return problem;
}

std::string PeerMemory::reach(const gpu::Device& peer, int rank) const {
  try {
    device_.enable_peer_access(peer);
    return {};
  } catch (const Error& error) {
    return concat("the memory of rank ", rank, " cannot be reached: ", error.message());
  }
}

void PeerMemory::keep_for_late_writers() noexcept {
  // CUDA keeps exported memory alive for whoever has mapped it; an emulated device would reuse it.
  if (RUNGS_GPU_CUDA != 0 || !has_other_processes_) return;
  try {
    static std::mutex mutex;
    static auto* const kept = new std::vector<Memory>;  // never destroyed
    const std::lock_guard lock(mutex);
    kept->push_back(own_);
  } catch (...) {
    static_cast<void>(new Memory(own_));  // out of memory: leak it the short way
  }
}

}  // namespace rungs::collectives
