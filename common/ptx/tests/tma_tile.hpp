#pragma once
/// @file tma_tile.hpp
/// What the tests of TMA at every rank share: tensors, a host oracle that walks the box element by
/// element, and a fixture.

#include "bulk_conformance.hpp"
#include "bulk_oracle.hpp"
#include "fixture.hpp"

#include <rungs/testing/conforms.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace rungs::ptx::test {

using gpu::BulkReduction;
using gpu::OutOfBounds;
using gpu::Swizzle;
using gpu::TensorElement;

inline std::uint32_t span_of(Swizzle swizzle) {
  return swizzle == Swizzle::k128B  ? 128
         : swizzle == Swizzle::k64B ? 64
         : swizzle == Swizzle::k32B ? 32
                                    : 16;
}

// Where byte `linear` of the box lies in the shared-memory image, from the picture in the PTX ISA.
inline std::uint32_t place_of(Swizzle swizzle, std::uint32_t linear) {
  const std::uint32_t line = linear / 128, chunk = linear % 128 / 16;
  const std::uint32_t moves = span_of(swizzle) / 16;  // chunks that change places
  const std::uint32_t moved = chunk / moves * moves + ((chunk % moves) ^ (line % moves));
  return line * 128 + moved * 16 + linear % 16;
}

struct Tensor {
  gpu::TensorMapSpec spec;
  std::vector<std::uint8_t> bytes;
  std::uint32_t shift = 0;  // of the tile behind a 1024-byte boundary

  [[nodiscard]] std::uint32_t count(int d) const {  // of elements that a load brings
    const auto i = static_cast<std::size_t>(d);
    if (d >= spec.rank) return 1;
    return (spec.box[i] + spec.element_strides[i] - 1) / spec.element_strides[i];
  }
  [[nodiscard]] std::uint32_t tile_bytes() const {
    std::uint32_t product = static_cast<std::uint32_t>(element_size(spec.element));
    for (int d = 0; d < 5; d++) product *= count(d);
    return product;
  }
  // Calls visit(byte of the image, byte of the tensor or -1) for the first byte of every element.
  template <class Visit>
  void walk(const Coordinates& from, Visit&& visit) const {
    const auto element = static_cast<std::uint32_t>(element_size(spec.element));
    std::uint32_t linear = 0;
    std::array<std::uint32_t, 5> i{};
    for (i[4] = 0; i[4] < count(4); i[4]++)
      for (i[3] = 0; i[3] < count(3); i[3]++)
        for (i[2] = 0; i[2] < count(2); i[2]++)
          for (i[1] = 0; i[1] < count(1); i[1]++)
            for (i[0] = 0; i[0] < count(0); i[0]++, linear += element) {
              bool inside = true;
              std::int64_t at = 0;
              for (std::size_t d = 0; d < static_cast<std::size_t>(spec.rank); d++) {
                const std::int64_t c =
                    from.at[d] + std::int64_t{i[d]} * std::int64_t{spec.element_strides[d]};
                inside = inside && c >= 0 && c < static_cast<std::int64_t>(spec.sizes[d]);
                at += c * static_cast<std::int64_t>(d == 0 ? element : spec.strides_bytes[d - 1]);
              }
              visit(place_of(spec.swizzle, shift + linear) - shift, inside ? at : std::int64_t{-1});
            }
  }
};

// Sizes that no box divides, gaps behind rows and planes.
inline Tensor make_tensor(int rank, TensorElement element, Swizzle swizzle,
                          std::uint32_t row_bytes) {
  Tensor t;
  const auto size = static_cast<std::uint32_t>(element_size(element));
  t.spec.rank = rank;
  t.spec.element = element;
  t.spec.swizzle = swizzle;
  t.spec.sizes = {(row_bytes + 48) / size + 1, 5, 4, 3, 3};
  const std::uint64_t row = row_bytes + 96, plane = 5 * row + 16, volume = 4 * plane + 32;
  t.spec.strides_bytes = {row, plane, volume, 3 * volume + 48};
  t.spec.box = {row_bytes / size, rank == 2 ? 8u : 4u, 2, 2, 2};
  t.bytes.resize(3 * t.spec.strides_bytes[3]);
  for (std::size_t i = 0; i < t.bytes.size(); i++)
    t.bytes[i] = static_cast<std::uint8_t>(i * 7 + i / 251 + 1);
  return t;
}

inline std::vector<Coordinates> places(const Tensor& t, bool negative) {
  const int chunk = 16 / static_cast<int>(element_size(t.spec.element));
  std::vector<Coordinates> all = {
      {{0, 0, 0, 0, 0}},         {{chunk, 1, 1, 1, 1}},
      {{3 * chunk, 2, 3, 2, 2}},                                // over the far edges
      {{0, 0, 0, 2, 0}},         {{1000 * chunk, 0, 0, 0, 0}},  // outside
      {{0, 9, 0, 0, 0}}};
  if (negative) {
    all.push_back({{-chunk, -1, -1, -1, -1}});
    all.push_back({{-2 * chunk, 3, -1, 0, 1}});
    all.push_back({{0, -9, 0, 0, 0}});
  }
  return all;
}

class TileConformance : public Conformance {
 protected:
  gpu::TensorMap map_of(Tensor& t, const gpu::Buffer<std::uint8_t>& data) const {
    t.spec.base = data.data();
    return gpu::make_tensor_map(t.spec);
  }

  void check_image(const Tensor& t, const Coordinates& at, const std::vector<std::uint8_t>& image) {
    t.walk(at, [&](std::uint32_t place, std::int64_t from) {
      if (HasFatalFailure()) return;
      for (std::uint32_t b = 0; b < element_size(t.spec.element); b++) {
        const std::uint8_t expected =
            from < 0 ? std::uint8_t{0} : t.bytes[static_cast<std::size_t>(from) + b];
        ASSERT_EQ(image[place + b], expected) << "byte " << place + b << describe(t, at);
      }
    });
  }

  void load(Tensor t, Hint hint, const Coordinates& at, std::uint32_t shift = 0) {
    t.shift = shift;
    const auto data = upload(t.bytes);
    const gpu::TensorMap map = map_of(t, data);
    const auto out = filled<std::uint8_t>(t.tile_bytes(), 0xee);
    launch_load_tile(nullptr, t.spec.rank, hint, map, at, t.tile_bytes(), shift, out.data());
    check_image(t, at, out.download());
  }

  void load_across(Tensor t, const Coordinates& at) {
    const auto data = upload(t.bytes);
    const gpu::TensorMap map = map_of(t, data);
    const auto out = filled<std::uint8_t>(t.tile_bytes(), 0xee);
    launch_cross_load_tile(nullptr, map, at, t.tile_bytes(), out.data());
    check_image(t, at, out.download());
  }

  void store(Tensor t, Hint hint, const Coordinates& at, std::uint32_t shift = 0) {
    t.shift = shift;
    const auto data = upload(t.bytes);
    const gpu::TensorMap map = map_of(t, data);
    const std::vector<std::uint8_t> image = image_of(t);
    const auto source = upload(image);
    launch_store_tile(nullptr, t.spec.rank, hint, map, at, t.tile_bytes(), shift, source.data());
    std::vector<std::uint8_t> expected = t.bytes;
    t.walk(at, [&](std::uint32_t place, std::int64_t to) {
      for (std::uint32_t b = 0; b < element_size(t.spec.element) && to >= 0; b++)
        expected[static_cast<std::size_t>(to) + b] = image[place + b];
    });
    compare(data.download(), expected, t, at);
  }

  void reduce(Tensor t, BulkReduction reduction, const Coordinates& at) {
    t.bytes = reduction_operands(t.spec.element, t.bytes.size(), 1);
    const auto data = upload(t.bytes);
    const gpu::TensorMap map = map_of(t, data);
    const std::vector<std::uint8_t> image = reduction_operands(t.spec.element, t.tile_bytes(), 2);
    const auto source = upload(image);
    launch_reduce_tile(nullptr, t.spec.rank, reduction, map, at, t.tile_bytes(), source.data());
    std::vector<std::uint8_t> expected = t.bytes;
    t.walk(at, [&](std::uint32_t place, std::int64_t to) {
      if (to >= 0)
        reduce_one(reduction, t.spec.element, &expected[static_cast<std::size_t>(to)],
                   &image[place]);
    });
    compare(data.download(), expected, t, at,
            " operation " + std::to_string(static_cast<int>(reduction)));
  }

  // All operations that exist on the type, at every rank.
  void reduce_all(TensorElement element) {
    constexpr int kAll = 8;
    for (int operation = 0; operation < kAll; operation++) {
      const auto reduction = static_cast<BulkReduction>(operation);
      const bool half = element == TensorElement::kF16 || element == TensorElement::kBf16;
      const bool real = half || element == TensorElement::kF32 || element == TensorElement::kF64;
      const bool counts = reduction == BulkReduction::kInc || reduction == BulkReduction::kDec;
      if (counts && element != TensorElement::kU32) continue;
      if (real && reduction > (half ? BulkReduction::kMax : BulkReduction::kAdd)) continue;
      const bool extremum = reduction == BulkReduction::kMin || reduction == BulkReduction::kMax;
      if (element == TensorElement::kI64 && !extremum) continue;
      const int rank = 1 + operation % 5;
      Tensor t = make_tensor(rank, element, Swizzle::kNone, 64);
      // Whole elements only, and gaps that hold some.
      for (const Coordinates& at : places(t, false)) reduce(t, reduction, at);
      if (rank > 1) {
        t.spec.swizzle = Swizzle::k64B;
        reduce(t, reduction, places(t, false)[1]);
      }
    }
  }

  static std::vector<std::uint8_t> image_of(const Tensor& t) {
    std::vector<std::uint8_t> image(t.tile_bytes());
    for (std::size_t i = 0; i < image.size(); i++)
      image[i] = static_cast<std::uint8_t>(i * 11 + i / 253 + 5);
    return image;
  }
  static std::string describe(const Tensor& t, const Coordinates& at) {
    std::string text = ", rank " + std::to_string(t.spec.rank) + ", element " +
                       std::to_string(static_cast<int>(t.spec.element)) + ", swizzle " +
                       std::to_string(static_cast<int>(t.spec.swizzle)) + ", at";
    for (int d = 0; d < t.spec.rank; d++) text += " " + std::to_string(at.at[d]);
    return text;
  }
  static void compare(const std::vector<std::uint8_t>& found,
                      const std::vector<std::uint8_t>& expected, const Tensor& t,
                      const Coordinates& at, const std::string& more = "") {
    for (std::size_t i = 0; i < found.size(); i++) {
      ASSERT_EQ(found[i], expected[i])
          << "byte " << i << " of the tensor" << describe(t, at) << more;
    }
  }

  template <class Run>
  static void every_shape(Run&& run) {
    for (int rank = 1; rank <= 5; rank++) {
      for (const TensorElement element :
           {TensorElement::kU8, TensorElement::kBf16, TensorElement::kF32, TensorElement::kF64}) {
        run(make_tensor(rank, element, Swizzle::kNone, 48));
        if (rank == 1) continue;
        for (const Swizzle swizzle : {Swizzle::k32B, Swizzle::k64B, Swizzle::k128B})
          run(make_tensor(rank, element, swizzle, span_of(swizzle)));
      }
    }
  }
};

}  // namespace rungs::ptx::test
