#pragma once
/// @file bytes.hpp
/// Values to bytes and back, little-endian, for everything that travels.

#include <rungs/config.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace rungs::bootstrap::detail {

class ByteWriter {
 public:
  template <class T>
  ByteWriter& number(T value) {
    static_assert(std::is_integral_v<T>);
    auto bits = static_cast<std::uint64_t>(value);
    for (std::size_t i = 0; i < sizeof(T); ++i, bits >>= 8) bytes_.push_back(std::byte(bits));
    return *this;
  }
  ByteWriter& bytes(std::span<const std::byte> some) {
    // Not insert() of a range: g++ 12 warns of bounds in a branch of it that is never taken.
    for (const std::byte byte : some) bytes_.push_back(byte);
    return *this;
  }
  /// A 32-bit length and the text.
  ByteWriter& text(std::string_view some) {
    return number(static_cast<std::uint32_t>(some.size())).bytes(std::as_bytes(std::span(some)));
  }
  [[nodiscard]] const std::vector<std::byte>& written() const noexcept { return bytes_; }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

/// Reads what a ByteWriter wrote. Past the end everything reads as zero and ok() is false, so that
/// a caller checks once.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <class T>
  T number() {
    static_assert(std::is_integral_v<T>);
    std::uint64_t bits = 0;
    const std::span<const std::byte> some = take(sizeof(T));
    for (std::size_t i = 0; i < some.size(); ++i) bits |= std::uint64_t(some[i]) << (8 * i);
    return static_cast<T>(bits);
  }
  /// Fills `to`.
  void bytes(std::span<std::byte> to) {
    const std::span<const std::byte> some = take(to.size());
    for (std::size_t i = 0; i < some.size(); ++i) to[i] = some[i];
  }
  std::string text() {
    const std::span<const std::byte> some = take(number<std::uint32_t>());
    return {reinterpret_cast<const char*>(some.data()), some.size()};
  }
  [[nodiscard]] bool ok() const noexcept { return ok_; }
  [[nodiscard]] std::size_t left() const noexcept { return bytes_.size(); }

 private:
  std::span<const std::byte> take(std::size_t count) {
    if (count > bytes_.size()) {
      ok_ = false;
      bytes_ = {};
      return {};
    }
    const std::span<const std::byte> some = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return some;
  }

  std::span<const std::byte> bytes_;
  bool ok_ = true;
};

}  // namespace rungs::bootstrap::detail
