#include <rungs/core/text.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace rungs {
namespace {

struct CodePoint {
  char32_t value;
  std::size_t length_bytes;
};

// Decodes the first character; what is no UTF-8 is taken as one byte.
CodePoint first_of(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const std::size_t length = lead < 0x80    ? 1
                             : lead >= 0xf0 ? 4
                             : lead >= 0xe0 ? 3
                             : lead >= 0xc0 ? 2
                                            : 1;
  if (length == 1 || length > text.size()) return {lead, 1};
  char32_t value = lead & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0u) != 0x80u) return {lead, 1};
    value = (value << 6) | (byte(i) & 0x3fu);
  }
  return {value, length};
}

struct Range {
  char32_t first, last;
};
// Combining marks and zero-width characters, and East Asian wide blocks and emoji (Unicode 15,
// EastAsianWidth.txt), as far as this project's texts meet them.
constexpr std::array<Range, 6> kZeroWidth{{{0x0300, 0x036f},
                                           {0x1ab0, 0x1aff},
                                           {0x1dc0, 0x1dff},
                                           {0x200b, 0x200f},
                                           {0x20d0, 0x20ff},
                                           {0xfe00, 0xfe0f}}};
constexpr std::array<Range, 9> kWide{{{0x1100, 0x115f},
                                      {0x2e80, 0x303e},
                                      {0x3041, 0xa4cf},
                                      {0xac00, 0xd7a3},
                                      {0xf900, 0xfaff},
                                      {0xfe30, 0xfe6f},
                                      {0xff00, 0xff60},
                                      {0xffe0, 0xffe6},
                                      {0x1f300, 0x3fffd}}};

std::size_t width_of(char32_t c) {
  const auto holds = [c](const Range& range) { return c >= range.first && c <= range.last; };
  if (std::any_of(kZeroWidth.begin(), kZeroWidth.end(), holds)) return 0;
  return std::any_of(kWide.begin(), kWide.end(), holds) ? 2 : 1;
}

// "3.10", "31.0", "310": three digits wherever the point is.
std::string three_digits(double value) {
  const double size = std::abs(value);
  const int decimals = size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.*f", decimals, value);
  return buffer.data();
}

struct Prefix {
  double factor;
  const char* name;
};

// The largest prefix that leaves at least 1 after rounding to three digits.
template <std::size_t N>
std::string with_prefix(double value, const std::array<Prefix, N>& prefixes,
                        std::string_view unit) {
  if (!std::isfinite(value)) return "–";
  const Prefix* chosen = &prefixes.back();
  for (const Prefix& prefix : prefixes) {
    if (std::abs(value) >= 0.9995 * prefix.factor) {
      chosen = &prefix;
      break;
    }
  }
  const std::string name = std::string(chosen->name) + std::string(unit);
  return three_digits(value / chosen->factor) + (name.empty() ? "" : " " + name);
}

}  // namespace

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) {
    const CodePoint c = first_of(text);
    width += width_of(c.value);
    text.remove_prefix(c.length_bytes);
  }
  return width;
}

std::string cut_to_width(std::string_view text, std::size_t columns) {
  if (display_width(text) <= columns) return std::string(text);
  if (columns == 0) return {};
  std::string result;
  std::size_t width = 0;
  while (!text.empty()) {
    const CodePoint c = first_of(text);
    if (width + width_of(c.value) > columns - 1) break;
    width += width_of(c.value);
    result += text.substr(0, c.length_bytes);
    text.remove_prefix(c.length_bytes);
  }
  return result + "…";
}

std::string pad_right(std::string_view text, std::size_t columns) {
  const std::size_t width = display_width(text);
  return std::string(text) + std::string(columns > width ? columns - width : 0, ' ');
}

std::string pad_left(std::string_view text, std::size_t columns) {
  const std::size_t width = display_width(text);
  return std::string(columns > width ? columns - width : 0, ' ') + std::string(text);
}

std::string format_seconds(double seconds) {
  static constexpr std::array<Prefix, 4> kPrefixes{
      {{1, ""}, {1e-3, "m"}, {1e-6, "µ"}, {1e-9, "n"}}};
  if (seconds == 0) return "0 s";
  return with_prefix(seconds, kPrefixes, "s");
}

std::string format_clock(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e9) return "–";
  const long long whole = std::llround(seconds);
  std::array<char, 64> buffer{};
  if (whole < 3600) {
    std::snprintf(buffer.data(), buffer.size(), "%lld:%02lld", whole / 60, whole % 60);
  } else {
    std::snprintf(buffer.data(), buffer.size(), "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60,
                  whole % 60);
  }
  return buffer.data();
}

std::string format_quantity(double value, std::string_view unit) {
  static constexpr std::array<Prefix, 6> kPrefixes{
      {{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}}};
  return with_prefix(value, kPrefixes, unit);
}

}  // namespace rungs
