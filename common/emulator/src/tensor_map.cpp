#include <rungs/emulator/tensor_map.hpp>

#include <rungs/core/error.hpp>

#include <cstddef>
#include <cstring>

namespace rungs::emulator {
namespace {

constexpr std::uint64_t kMagic = 0x52756e6773544d41ull;
constexpr std::size_t kRank = gpu::TensorMapSpec::kMaxRank;

struct Packed {
  std::uint64_t magic;
  const void* base;
  std::uint64_t strides_bytes[kRank - 1];
  std::uint32_t last[kRank];  // size - 1
  std::uint16_t box[kRank];
  std::uint8_t element_strides[kRank];
  std::uint8_t rank;
  gpu::TensorElement element;
  std::uint8_t swizzle;
  gpu::OutOfBounds fill;
  gpu::L2Promotion promotion;
};
static_assert(sizeof(Packed) <= sizeof(gpu::TensorMap));

gpu::TensorElement element_of(std::uint32_t size_bytes) {
  switch (size_bytes) {
    case 1:
      return gpu::TensorElement::kU8;
    case 2:
      return gpu::TensorElement::kBf16;
    case 4:
      return gpu::TensorElement::kF32;
    default:
      return gpu::TensorElement::kF64;
  }
}

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
  gpu::TensorMapSpec spec;
  spec.base = fields.base;
  spec.element = element_of(element);
  spec.sizes = {fields.cols, fields.rows};
  spec.strides_bytes = {fields.pitch_bytes};
  spec.box = {fields.box_cols, fields.box_rows};
  spec.swizzle = fields.swizzle;
  return encode_tile_map(spec);
}

bool decode_tensor_map(const gpu::TensorMap& map, TensorMapFields* fields) {
  gpu::TensorMapSpec spec;
  if (!decode_tile_map(map, &spec) || spec.rank != 2) return false;
  *fields = {spec.base,
             spec.sizes[1],
             spec.sizes[0],
             spec.strides_bytes[0],
             spec.box[1],
             spec.box[0],
             element_size_bytes(spec.element),
             spec.swizzle};
  return true;
}

gpu::TensorMap encode_tile_map(const gpu::TensorMapSpec& spec) {
  if (spec.element > gpu::TensorElement::kBf16) {
    RUNGS_THROW(kUnsupported, "tensor map: element type ", static_cast<int>(spec.element),
                " (f32_ftz, tf32, tf32_ftz) is not modelled in the emulator; use kF32");
  }
  Packed packed{};
  packed.magic = kMagic;
  packed.base = spec.base;
  packed.rank = static_cast<std::uint8_t>(spec.rank);
  packed.element = spec.element;
  packed.swizzle = static_cast<std::uint8_t>(spec.swizzle);
  packed.fill = spec.fill;
  packed.promotion = spec.promotion;
  for (std::size_t d = 0; d < static_cast<std::size_t>(spec.rank); d++) {
    packed.last[d] = static_cast<std::uint32_t>(spec.sizes[d] - 1);
    packed.box[d] = static_cast<std::uint16_t>(spec.box[d]);
    packed.element_strides[d] = static_cast<std::uint8_t>(spec.element_strides[d]);
    if (d > 0) packed.strides_bytes[d - 1] = spec.strides_bytes[d - 1];
  }
  gpu::TensorMap map{};
  std::memcpy(map.opaque, &packed, sizeof(packed));
  return map;
}

bool decode_tile_map(const gpu::TensorMap& map, gpu::TensorMapSpec* spec) {
  Packed packed;
  std::memcpy(&packed, map.opaque, sizeof(packed));
  if (packed.magic != kMagic) return false;
  *spec = {};
  spec->base = packed.base;
  spec->element = packed.element;
  spec->rank = packed.rank;
  spec->swizzle = static_cast<gpu::Swizzle>(packed.swizzle);
  spec->fill = packed.fill;
  spec->promotion = packed.promotion;
  for (std::size_t d = 0; d < packed.rank; d++) {
    spec->sizes[d] = std::uint64_t{packed.last[d]} + 1;
    spec->box[d] = packed.box[d];
    spec->element_strides[d] = packed.element_strides[d];
    if (d > 0) spec->strides_bytes[d - 1] = packed.strides_bytes[d - 1];
  }
  return true;
}

std::uint32_t element_size_bytes(gpu::TensorElement element) {
  switch (element) {
    case gpu::TensorElement::kU8:
      return 1;
    case gpu::TensorElement::kU16:
    case gpu::TensorElement::kF16:
    case gpu::TensorElement::kBf16:
      return 2;
    case gpu::TensorElement::kU64:
    case gpu::TensorElement::kI64:
    case gpu::TensorElement::kF64:
      return 8;
    default:
      return 4;
  }
}

}  // namespace rungs::emulator
