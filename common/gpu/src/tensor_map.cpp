#include <rungs/gpu/tensor_map.hpp>

#include "checks.hpp"

#include <rungs/core/error.hpp>

#include <cstdint>

namespace rungs::gpu {
namespace {

constexpr std::uint64_t kAlignment = 16;  // of base, pitch and box row: TMA moves 16-byte chunks
constexpr std::uint64_t kMaxExtent = std::uint64_t{1} << 32;
constexpr std::uint64_t kMaxPitchBytes = std::uint64_t{1} << 40;
constexpr std::uint32_t kMaxBox = 256;

std::uint64_t span_bytes(Swizzle swizzle) {
  switch (swizzle) {
    case Swizzle::kNone:
      return 0;
    case Swizzle::k32B:
      return 32;
    case Swizzle::k64B:
      return 64;
    case Swizzle::k128B:
      return 128;
  }
  RUNGS_THROW(kInvalidArgument, "tensor map: swizzle ", static_cast<int>(swizzle),
              " does not exist");
}

void check_extent(const char* what, std::uint64_t extent) {
  RUNGS_REQUIRE(extent >= 1 && extent <= kMaxExtent, "tensor map: ", what, " is ", extent,
                ", it must be 1 to ", kMaxExtent);
}

void check_box(const char* what, std::uint32_t extent) {
  RUNGS_REQUIRE(extent >= 1 && extent <= kMaxBox, "tensor map: ", what, " is ", extent,
                ", it must be 1 to ", kMaxBox);
}

}  // namespace

TensorMap make_tensor_map_2d(const void* base, DType dtype, std::uint64_t rows, std::uint64_t cols,
                             std::uint64_t pitch_bytes, std::uint32_t box_rows,
                             std::uint32_t box_cols, Swizzle swizzle) {
  const std::uint64_t element_bytes = size_bytes(dtype);
  RUNGS_REQUIRE(element_bytes != 0, "tensor map: dtype ", static_cast<int>(dtype),
                " does not exist");
  RUNGS_REQUIRE(base != nullptr && reinterpret_cast<std::uintptr_t>(base) % kAlignment == 0,
                "tensor map: base ", base, " must not be null and must be a multiple of ",
                kAlignment, " bytes");
  check_extent("rows", rows);
  check_extent("cols", cols);
  RUNGS_REQUIRE(pitch_bytes % kAlignment == 0 && pitch_bytes < kMaxPitchBytes,
                "tensor map: a pitch of ", pitch_bytes, " bytes must be a multiple of ", kAlignment,
                " below 2^40");
  RUNGS_REQUIRE(pitch_bytes >= cols * element_bytes, "tensor map: a pitch of ", pitch_bytes,
                " bytes is less than a row of ", cols, " ", to_string(dtype), " (",
                cols * element_bytes, " bytes)");
  check_box("box_rows", box_rows);
  check_box("box_cols", box_cols);
  const std::uint64_t box_bytes = box_cols * element_bytes;
  RUNGS_REQUIRE(box_bytes % kAlignment == 0, "tensor map: a box row of ", box_cols, " ",
                to_string(dtype), " has ", box_bytes, " bytes, it must be a multiple of ",
                kAlignment);
  const std::uint64_t span = span_bytes(swizzle);
  RUNGS_REQUIRE(span == 0 || box_bytes <= span, "tensor map: a box row of ", box_bytes,
                " bytes is wider than the swizzle's ", span,
                " bytes; take narrower boxes and several copies");
  return detail::encode_tensor_map(
      {base, dtype, rows, cols, pitch_bytes, box_rows, box_cols, swizzle});
}

}  // namespace rungs::gpu
