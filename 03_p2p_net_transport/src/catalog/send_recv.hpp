#pragma once
/// @file send_recv.hpp
/// One message from rank 0 to rank 1, with its oracle, and the two rungs that carry it.

#include <rungs/gpu/buffer.hpp>
#include <rungs/ladder/build.hpp>
#include <rungs/transport/transport.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace rungs::transport {

/// The call: rank 0 sends `from`, rank 1 receives into `to`.
struct SendRecv {
  Kind kind = Kind::kSharedMemory;
  std::size_t size_bytes = 0;
  const float* from = nullptr;  // memory of rank 0: host, or its device for kGpuPeer
  float* to = nullptr;          // of rank 1
};

/// Ordinal of a rank's device: two where there are two that reach each other, else one for both.
int device_of(int rank);

/// Random words, sent and compared bit for bit.
class SendRecvProblem final : public ladder::Problem<SendRecv> {
 public:
  SendRecvProblem(Kind kind, std::size_t size_bytes, std::uint64_t seed);
  SendRecv args() override;
  void reset() override;
  std::vector<float> output() override;
  ladder::Reference reference() override;
  double bound(std::size_t) override { return 0; }
  std::string describe(std::size_t word) override;

 private:
  Kind kind_;
  std::vector<float> sent_;
  std::vector<float> received_;
  std::optional<gpu::Device> receiver_;
  gpu::Buffer<float> device_sent_;
  gpu::Buffer<float> device_received_;
};

/// The naive rung first.
extern const std::array<ladder::Rung<SendRecv>, 2> kLadder;

}  // namespace rungs::transport
