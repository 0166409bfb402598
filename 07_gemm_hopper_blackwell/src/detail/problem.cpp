/// Every rule of gemm::Args, checked once at set-up so that kernels need not.

#include "problem.hpp"

#include <rungs/core/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace rungs::gemm::detail {
namespace {

/// Largest extent: rounded up to any tile it still fits an int32, which tile arithmetic and TMA
/// coordinates use.
constexpr std::int64_t kMaxExtent = 2147483392;  // 2^31 - 256
/// Kernels count 64×64 tiles of C in an int32.
constexpr std::int64_t kMaxTiles = 2147483647;

std::uintptr_t address_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

void check_shape(const char* name, const ConstTensor<2>& tensor, const char* rows,
                 const char* cols) {
  const char* const letters[2] = {rows, cols};
  for (std::size_t d = 0; d < 2; ++d) {
    RUNGS_REQUIRE(tensor.shape[d] >= 0 && tensor.shape[d] <= kMaxExtent, "gemm: ", name, ".shape[",
                  d, "] (", letters[d], ") is ", tensor.shape[d], "; it must lie in [0, ",
                  kMaxExtent, "]");
  }
}

void check_memory(const char* name, const ConstTensor<2>& tensor) {
  if (tensor.count() == 0) return;
  RUNGS_REQUIRE(tensor.data != nullptr, "gemm: ", name, ".data is null but its shape is [",
                tensor.shape[0], ", ", tensor.shape[1], "]; pass device memory");
  const std::size_t alignment = size_bytes(tensor.dtype);
  RUNGS_REQUIRE(address_of(tensor.data) % alignment == 0, "gemm: ", name, ".data is ", tensor.data,
                ", not a multiple of the element size ", alignment, " (", to_string(tensor.dtype),
                ")");
}

/// Finds out how an operand lies in memory; fixes the strides of dimensions of extent 1.
Operand check_operand(const char* name, const ConstTensor<2>& tensor, const char* extent_name) {
  RUNGS_REQUIRE(tensor.dtype == DType::kBf16, "gemm: ", name, ".dtype is ", to_string(tensor.dtype),
                "; only bf16 operands are supported: convert it first");
  check_memory(name, tensor);
  const std::int64_t extent = tensor.shape[0];
  const std::int64_t depth = tensor.shape[1];
  std::int64_t extent_stride = tensor.strides[0];
  std::int64_t depth_stride = tensor.strides[1];
  const bool empty = extent == 0 || depth == 0;
  // No address depends on the stride of a dimension with one index, so any value is right: take the
  // dense one.
  if (empty) depth_stride = 1;
  if (!empty && depth == 1) depth_stride = extent_stride == 1 ? extent : 1;
  if (empty || extent == 1) extent_stride = depth_stride == 1 ? depth : 1;

  Operand operand{tensor.as<bf16>(), extent_stride, depth_stride, Major::kDepth};
  if (depth_stride == 1 && extent_stride >= depth) return operand;
  if (extent_stride == 1 && depth_stride >= extent) {
    operand.major = Major::kExtent;
    return operand;
  }
  RUNGS_REQUIRE(extent_stride == 1 || depth_stride == 1, "gemm: ", name, ".strides are [",
                tensor.strides[0], ", ", tensor.strides[1],
                "]; one of them must be 1: copy it into a dense tensor first");
  const bool k_major = depth_stride == 1;
  RUNGS_THROW(kInvalidArgument, "gemm: ", name, ".strides[", k_major ? 0 : 1, "] is ",
              k_major ? extent_stride : depth_stride, ", less than the ", k_major ? depth : extent,
              " elements of a contiguous line (", k_major ? "K" : extent_name, "): lines overlap");
}

/// The byte ranges a view touches, as lines of `line_bytes` bytes every `pitch_bytes`.
struct Footprint {
  const void* data;
  std::uintptr_t begin;  // data's address
  std::uintptr_t end;
  std::uintptr_t line_bytes;
  std::uintptr_t pitch_bytes;
};

Footprint footprint(const void* data, std::int64_t lines, std::int64_t line, std::int64_t pitch,
                    std::size_t element_bytes) {
  Footprint result{};
  result.data = data;
  result.begin = address_of(data);
  result.line_bytes = static_cast<std::uintptr_t>(line) * element_bytes;
  result.pitch_bytes = static_cast<std::uintptr_t>(pitch) * element_bytes;
  result.end = result.begin + static_cast<std::uintptr_t>(lines - 1) * result.pitch_bytes +
               result.line_bytes;
  return result;
}

/// Whether two views share a byte. Views of different pitch whose ranges cross count as sharing
/// one.
bool share_bytes(const Footprint& x, const Footprint& y) {
  if (x.end <= y.begin || y.end <= x.begin) return false;
  if (x.pitch_bytes != y.pitch_bytes || x.pitch_bytes == 0) return true;
  // Two column windows of one matrix: apart if y's window lies between the end of x's and x's next
  // line.
  const std::uintptr_t pitch = x.pitch_bytes;
  const std::uintptr_t distance = y.begin >= x.begin
                                      ? (y.begin - x.begin) % pitch
                                      : (pitch - (x.begin - y.begin) % pitch) % pitch;
  return distance < x.line_bytes || distance + y.line_bytes > pitch;
}

void check_no_overlap(const char* name, const Operand& operand, std::int64_t extent,
                      std::int64_t depth, const Footprint& c) {
  if (extent == 0 || depth == 0) return;
  const bool k_major = operand.major == Major::kDepth;
  const Footprint other = footprint(operand.data, k_major ? extent : depth,
                                    k_major ? depth : extent, operand.pitch(), sizeof(bf16));
  RUNGS_REQUIRE(!share_bytes(c, other), "gemm: c at ", c.data, " (", c.end - c.begin,
                " bytes) overlaps ", name, " at ", static_cast<const void*>(operand.data), " (",
                other.end - other.begin, " bytes); give c memory of its own");
}

void check_count(const char* name, const std::int32_t* count) {
  RUNGS_REQUIRE(address_of(count) % alignof(std::int32_t) == 0, "gemm: ", name, " is ",
                static_cast<const void*>(count), ", not a multiple of 4");
}

Output check_output(const Args& args) {
  const Tensor<2>& c = args.c;
  RUNGS_REQUIRE(c.dtype == DType::kF32 || c.dtype == DType::kBf16, "gemm: c.dtype is ",
                to_string(c.dtype), "; it must be f32 or bf16");
  check_memory("c", c);
  const std::int64_t rows = c.shape[0];
  const std::int64_t cols = c.shape[1];
  RUNGS_REQUIRE(c.strides[1] == 1 || cols <= 1, "gemm: c.strides[1] is ", c.strides[1],
                "; c must be row-major (stride 1 along N): swap a and b to write its transpose");
  RUNGS_REQUIRE(rows <= 1 || c.strides[0] >= cols, "gemm: c.strides[0] is ", c.strides[0],
                ", less than N = ", cols, ": rows of c would overlap");
  Output output{};
  output.data = c.data;
  output.row_stride = rows <= 1 ? cols : c.strides[0];
  output.beta = args.beta;
  output.is_bf16 = c.dtype == DType::kBf16;
  const std::size_t pair_bytes = 2 * size_bytes(c.dtype);
  output.pairs_aligned = address_of(c.data) % pair_bytes == 0 && output.row_stride % 2 == 0;
  return output;
}

}  // namespace

Problem checked(const Args& args) {
  check_shape("a", args.a, "M", "K");
  check_shape("b", args.b, "N", "K");
  check_shape("c", args.c, "M", "N");
  RUNGS_REQUIRE(args.b.shape[1] == args.a.shape[1], "gemm: b.shape[1] (K) is ", args.b.shape[1],
                " but a.shape[1] (K) is ", args.a.shape[1],
                "; b is [N, K]: pass b.transposed() if yours is [K, N]");
  RUNGS_REQUIRE(args.c.shape[0] == args.a.shape[0], "gemm: c.shape[0] (M) is ", args.c.shape[0],
                " but a.shape[0] (M) is ", args.a.shape[0]);
  RUNGS_REQUIRE(args.c.shape[1] == args.b.shape[0], "gemm: c.shape[1] (N) is ", args.c.shape[1],
                " but b.shape[0] (N) is ", args.b.shape[0]);
  const std::int64_t tiles = ((args.c.shape[0] + 63) / 64) * ((args.c.shape[1] + 63) / 64);
  RUNGS_REQUIRE(tiles <= kMaxTiles, "gemm: c is [", args.c.shape[0], ", ", args.c.shape[1], "], ",
                tiles, " tiles of 64x64; at most ", kMaxTiles, " are supported: split the product");

  Problem problem{};
  problem.m = static_cast<std::int32_t>(args.a.shape[0]);
  problem.n = static_cast<std::int32_t>(args.b.shape[0]);
  problem.k = static_cast<std::int32_t>(args.a.shape[1]);
  problem.a = check_operand("a", args.a, "M");
  problem.b = check_operand("b", args.b, "N");
  problem.c = check_output(args);
  problem.valid_rows = args.valid_rows;
  problem.valid_depth = args.valid_depth;
  check_count("valid_rows", args.valid_rows);
  check_count("valid_depth", args.valid_depth);
  if (problem.m > 0 && problem.n > 0) {
    const Footprint c = footprint(args.c.data, problem.m, problem.n, problem.c.row_stride,
                                  size_bytes(args.c.dtype));
    check_no_overlap("a", problem.a, problem.m, problem.k, c);
    check_no_overlap("b", problem.b, problem.n, problem.k, c);
  }
  return problem;
}

}  // namespace rungs::gemm::detail
