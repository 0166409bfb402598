#include <rungs/emulator/tensor_map.hpp>

#include <rungs/core/error.hpp>

#include <cstring>

namespace rungs::emulator {
namespace {

constexpr std::uint64_t kMagic = 0x52756e6773544d41ull;

struct Packed {
  std::uint64_t magic;
  TensorMapFields fields;
};
static_assert(sizeof(Packed) <= sizeof(gpu::TensorMap));

const char* name_of(gpu::Swizzle swizzle) {
  switch (swizzle) {
    case gpu::Swizzle::kNone:
      return "none";
    case gpu::Swizzle::k32B:
      return "32B";
    case gpu::Swizzle::k64B:
      return "64B";
    case gpu::Swizzle::k128B:
      return "128B";
  }
  return "?";
}

}  // namespace

std::uint32_t swizzle_span_bytes(gpu::Swizzle swizzle) {
  switch (swizzle) {
    case gpu::Swizzle::kNone:
      return 16;
    case gpu::Swizzle::k32B:
      return 32;
    case gpu::Swizzle::k64B:
      return 64;
    case gpu::Swizzle::k128B:
      return 128;
  }
  return 16;
}

gpu::TensorMap encode_tensor_map(const TensorMapFields& fields) {
  const std::uint32_t element = fields.element_bytes;
  const std::uint64_t box_row_bytes = std::uint64_t{fields.box_cols} * element;
  RUNGS_REQUIRE(element == 1 || element == 2 || element == 4 || element == 8,
                "tensor map: elements of 1, 2, 4 or 8 bytes, got ", element);
  RUNGS_REQUIRE(fields.base != nullptr && reinterpret_cast<std::uintptr_t>(fields.base) % 16 == 0,
                "tensor map: the base must be 16-byte aligned and not null, got ", fields.base);
  RUNGS_REQUIRE(fields.rows >= 1 && fields.cols >= 1 && fields.rows <= 0x100000000ull &&
                    fields.cols <= 0x100000000ull,
                "tensor map: rows and columns from 1 to 2^32, got ", fields.rows, " x ",
                fields.cols);
  RUNGS_REQUIRE(fields.pitch_bytes % 16 == 0 && fields.pitch_bytes < (std::uint64_t{1} << 40),
                "tensor map: the pitch must be a multiple of 16 bytes below 2^40, got ",
                fields.pitch_bytes);
  RUNGS_REQUIRE(fields.pitch_bytes >= fields.cols * element, "tensor map: a pitch of ",
                fields.pitch_bytes, " bytes is shorter than a row of ", fields.cols * element);
  RUNGS_REQUIRE(fields.box_rows >= 1 && fields.box_rows <= 256 && fields.box_cols >= 1 &&
                    fields.box_cols <= 256,
                "tensor map: box extents from 1 to 256, got ", fields.box_rows, " x ",
                fields.box_cols);
  RUNGS_REQUIRE(box_row_bytes % 16 == 0,
                "tensor map: a box row must be a multiple of 16 bytes, got ", box_row_bytes);
  RUNGS_REQUIRE(
      fields.swizzle == gpu::Swizzle::kNone || box_row_bytes <= swizzle_span_bytes(fields.swizzle),
      "tensor map: with swizzle ", name_of(fields.swizzle), " a box row has at most ",
      swizzle_span_bytes(fields.swizzle), " bytes, got ", box_row_bytes);
  gpu::TensorMap map{};
  const Packed packed{kMagic, fields};
  std::memcpy(map.opaque, &packed, sizeof(packed));
  return map;
}

bool decode_tensor_map(const gpu::TensorMap& map, TensorMapFields* fields) {
  Packed packed{};
  std::memcpy(&packed, map.opaque, sizeof(packed));
  if (packed.magic != kMagic) return false;
  *fields = packed.fields;
  return true;
}

}  // namespace rungs::emulator
