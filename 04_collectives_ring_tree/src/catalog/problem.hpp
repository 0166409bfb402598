#pragma once
/// @file problem.hpp
/// One collective of several ranks as the harness sees it.

#include <rungs/collectives/communicator.hpp>
#include <rungs/gpu/buffer.hpp>
#include <rungs/ladder/build.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace rungs::collectives {

/// Ranks are threads. Two fit on one real GPU, as two streams; several GPUs are used in turn.
inline constexpr int kCatalogRanks = RUNGS_GPU_CUDA ? 2 : 4;

struct CollectiveShape {
  Collective what;
  DType dtype;
  Op op;
  std::size_t count;  ///< as in Communicator
  int root = 0;
};

/// What all ranks need: pointers by rank.
struct CollectiveArgs {
  CollectiveShape shape;
  std::vector<gpu::Device> devices;
  std::vector<const void*> send;
  std::vector<void*> recv;
};

class CollectiveProblem final : public ladder::Problem<CollectiveArgs> {
 public:
  CollectiveProblem(const CollectiveShape& shape, std::uint64_t seed);
  CollectiveArgs args() override;
  void reset() override;
  std::vector<float> output() override;
  ladder::Reference reference() override;
  double bound(std::size_t element) override;
  std::string describe(std::size_t element) override;

 private:
  [[nodiscard]] std::size_t received() const;  // elements a rank receives
  [[nodiscard]] double exact(int rank, std::size_t element, double* magnitude) const;

  CollectiveShape shape_;
  std::vector<gpu::Device> devices_;
  std::vector<std::vector<float>> inputs_;  // [rank], values of the dtype
  std::vector<gpu::Buffer<std::byte>> send_;
  std::vector<gpu::Buffer<std::byte>> recv_;
};

}  // namespace rungs::collectives
