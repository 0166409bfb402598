/// Stage 07 as the harness, the CLI and the chapter's table see it.

#include <rungs/gemm/catalog.hpp>
#include <rungs/gemm/gemm.hpp>
#include <rungs/ladder/build.hpp>

#include "catalog/cublas_peer.hpp"
#include "catalog/gemm_problem.hpp"
#include "catalog/my_rungs.hpp"

#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace rungs::gemm {
namespace {

enum class Size { kQuick, kTour, kGpu };

struct CatalogCase {
  GemmShape shape;
  Size size;
};

GemmShape plain(int m, int n, int k, DType c_dtype) {
  GemmShape shape;
  shape.m = m;
  shape.n = n;
  shape.k = k;
  shape.c_dtype = c_dtype;
  return shape;
}

std::vector<CatalogCase> catalog_cases() {
  std::vector<CatalogCase> cases;
  cases.push_back({plain(512, 256, 256, DType::kF32), Size::kQuick});
  GemmShape ragged = plain(193, 129, 130, DType::kBf16);
  ragged.beta = 0.5f;
  cases.push_back({ragged, Size::kQuick});
  // The training step's shapes: a forward product, and the weight gradient, where both operands are
  // transposed.
  cases.push_back({plain(256, 384, 128, DType::kBf16), Size::kTour});
  GemmShape weight_gradient = plain(512, 128, 256, DType::kF32);
  weight_gradient.a_m_major = true;
  weight_gradient.b_n_major = true;
  cases.push_back({weight_gradient, Size::kTour});
  // bf16 out, as torch.mm: squares, then skinny and rectangular products of large models.
  const int gpu_shapes[13][3] = {{512, 512, 512},       {1024, 1024, 1024},  {2048, 2048, 2048},
                                 {4096, 4096, 4096},    {6144, 6144, 6144},  {8192, 8192, 8192},
                                 {16384, 16384, 16384}, {64, 2112, 7168},    {128, 7168, 2048},
                                 {4096, 2112, 7168},    {4096, 24576, 1536}, {4096, 7168, 16384},
                                 {4096, 4096, 7168}};
  for (const auto& shape : gpu_shapes) {
    cases.push_back({plain(shape[0], shape[1], shape[2], DType::kBf16), Size::kGpu});
  }
  return cases;
}

ladder::Case describe(const CatalogCase& entry) {
  const GemmShape& shape = entry.shape;
  const double m = shape.m;
  const double n = shape.n;
  const double k = shape.k;
  // On a GPU the tour shows a product that fills it, and --quick one that just does.
  const bool square = shape.m == shape.n && shape.n == shape.k;
  const bool gpu_quick = square && shape.k == 2048;
  const bool gpu_tour = gpu_quick || (square && shape.k == 4096);
  ladder::Case result;
  result.name = to_string(shape);
  result.cost.flops = 2 * m * n * k;
  const double c_bytes = m * n * static_cast<double>(size_bytes(shape.c_dtype));
  result.cost.bytes = 2 * (m * k + n * k) + c_bytes * (shape.beta != 0 ? 2 : 1);
  result.in_quick = entry.size == Size::kQuick || gpu_quick;
  result.in_tour = entry.size != Size::kGpu || gpu_tour;
  result.gpu_only = entry.size == Size::kGpu;
  return result;
}

ladder::Operation gemm_bf16() {
  ladder::OperationSpec<Args> spec;
  spec.stage = "07_gemm_hopper_blackwell";
  spec.name = "gemm_bf16";
  spec.oracle =
      "dot products in double: every element up to 2^28 multiply-adds, else 4096 fixed-seed "
      "samples";
  spec.error_bound =
      "2^-24 (4 K s + 2 (s + |beta c|)) with s = |a_i| |b_j| (Euclidean); a bf16 result "
      "adds 2^-8 of its value";
  const std::vector<CatalogCase> cases = catalog_cases();
  for (const CatalogCase& entry : cases) spec.cases.push_back(describe(entry));
  spec.make_problem = [cases](std::size_t case_index, const ladder::Machine& machine,
                              std::uint64_t seed) {
    return std::make_unique<GemmProblem>(cases.at(case_index).shape, *machine.device, seed);
  };
  spec.peers.push_back(cublas_peer());
  const std::vector<ladder::Rung<Args>> rungs = whole_ladder();
  return ladder::make_operation(std::span<const ladder::Rung<Args>>(rungs), std::move(spec));
}

}  // namespace

std::vector<ladder::Operation> operations() { return {gemm_bf16()}; }

}  // namespace rungs::gemm
