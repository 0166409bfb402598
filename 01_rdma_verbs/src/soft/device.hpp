#pragma once
// The software HCA as a provider.

#include "engine.hpp"
#include "provider.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace rungs::verbs::soft {

inline constexpr std::uint32_t kMaxQueueDepth = 8192;
inline constexpr std::uint32_t kMaxCqDepth = 1 << 20;
inline constexpr std::uint32_t kMaxInlineBytes = 828;   // as a ConnectX
inline constexpr std::uint32_t kMaxSendWqebbs = 32768;  // WQEBB indices have 16 bits
inline constexpr std::size_t kLineBytes = 64;

DeviceInfo describe(const SoftOptions& options);
bool valid_mtu(std::uint32_t mtu);
std::uint32_t random_24_bits();

// Tests of the wrap-around: the PSN that the first packet of a queue pair of this provider will
// have. Before address() is given away.
void set_first_psn(provider::QueuePair& qp, std::uint32_t psn);

class SoftDevice final : public provider::Device, public std::enable_shared_from_this<SoftDevice> {
 public:
  explicit SoftDevice(const SoftOptions& options_)
      : options(options_),
        engine(options_),
        next_qp_number_(random_24_bits()) {
    info = describe(options);
  }
  std::shared_ptr<provider::ProtectionDomain> alloc_pd() override;
  std::shared_ptr<provider::CompletionQueue> create_cq(unsigned depth) override;
  WireCounters counters() const noexcept override { return engine.counters(); }

  // Under a Pause. 0 and 1 have other meanings on InfiniBand.
  std::uint32_t new_qp_number() {
    do {
      next_qp_number_ = (next_qp_number_ + 1) & 0xffffff;
    } while (next_qp_number_ < 2 || engine.has(next_qp_number_));
    return next_qp_number_;
  }
  // Under a Pause.
  std::uint32_t new_pd() { return ++last_pd_; }

  const SoftOptions options;
  Engine engine;

 private:
  std::uint32_t next_qp_number_;
  std::uint32_t last_pd_ = 0;
};

}  // namespace rungs::verbs::soft
