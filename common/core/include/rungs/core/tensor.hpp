#pragma once
/// @file tensor.hpp
/// Views of tensors in device or host memory: a pointer, a dtype, a shape and strides. A view owns
/// nothing.

#include <rungs/core/dtype.hpp>

#include <array>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace rungs {

/// Shape and strides are counted in elements; stride 0 is not allowed for a dimension longer than
/// 1.
/// @tparam Void `void` (written) or `const void` (read)
template <class Void, int Rank>
struct BasicTensor {
  Void* data = nullptr;
  DType dtype = DType::kF32;
  std::array<std::int64_t, Rank> shape{};
  std::array<std::int64_t, Rank> strides{};

  /// The pointer as T*; the caller has checked the dtype.
  template <class T>
  [[nodiscard]] auto as() const noexcept {
    using Element = std::conditional_t<std::is_const_v<Void>, const T, T>;
    return static_cast<Element*>(data);
  }
  /// The same memory with two dimensions exchanged: how a transposed operand is said.
  [[nodiscard]] BasicTensor transposed(int first = 0, int second = 1) const noexcept {
    BasicTensor result = *this;
    std::swap(result.shape[first], result.shape[second]);
    std::swap(result.strides[first], result.strides[second]);
    return result;
  }
  [[nodiscard]] std::int64_t count() const noexcept {
    std::int64_t product = 1;
    for (const std::int64_t extent : shape) product *= extent;
    return product;
  }
  /// A written view can be read. A template, since nvcc warns of a conversion to the own type even
  /// where the constraint rules it out.
  template <class Read>
  requires(std::is_same_v<Read, const void> && !std::is_const_v<Void>)
  operator BasicTensor<Read, Rank>() const noexcept {  // NOLINT(google-explicit-constructor)
    return {data, dtype, shape, strides};
  }
};

template <int Rank>
using Tensor = BasicTensor<void, Rank>;
template <int Rank>
using ConstTensor = BasicTensor<const void, Rank>;

/// Row-major strides: the last dimension is contiguous.
template <std::size_t Rank>
constexpr std::array<std::int64_t, Rank> row_major(const std::array<std::int64_t, Rank>& shape) {
  std::array<std::int64_t, Rank> strides{};
  std::int64_t step = 1;
  for (std::size_t i = Rank; i-- > 0;) {
    strides[i] = step;
    step *= shape[i];
  }
  return strides;
}

/// A dense row-major view of `data`. A pointer to const gives a ConstTensor.
template <class T, class... Extents>
auto tensor(T* data, Extents... extents) {
  constexpr int kRank = sizeof...(Extents);
  using Void = std::conditional_t<std::is_const_v<T>, const void, void>;
  const std::array<std::int64_t, kRank> shape{static_cast<std::int64_t>(extents)...};
  return BasicTensor<Void, kRank>{data, dtype_of<std::remove_const_t<T>>::value, shape,
                                  row_major(shape)};
}

}  // namespace rungs
