#include "bootstrap/sha256.hpp"

#include <algorithm>
#include <bit>

namespace rungs::bootstrap::detail {
namespace {

constexpr std::array<std::uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t big_endian(const std::byte* bytes) {
  return std::uint32_t(bytes[0]) << 24 | std::uint32_t(bytes[1]) << 16 |
         std::uint32_t(bytes[2]) << 8 | std::uint32_t(bytes[3]);
}

}  // namespace

void Sha256::block(const std::byte* bytes) {
  // 1. The message schedule: 16 words of the block, 48 mixed from them.
  std::array<std::uint32_t, 64> w{};
  for (std::size_t i = 0; i < 16; ++i) w[i] = big_endian(bytes + 4 * i);
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t low = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ w[i - 15] >> 3;
    const std::uint32_t high = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ w[i - 2] >> 10;
    w[i] = w[i - 16] + low + w[i - 7] + high;
  }
  // 2. 64 rounds over eight words a … h.
  auto [a, b, c, d, e, f, g, h] = state_;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t mixed_e = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const std::uint32_t choice = (e & f) ^ (~e & g);
    const std::uint32_t first = h + mixed_e + choice + kRound[i] + w[i];
    const std::uint32_t mixed_a = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const std::uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
    h = g;
    g = f;
    f = e;
    e = d + first;
    d = c;
    c = b;
    b = a;
    a = first + mixed_a + majority;
  }
  // 3. Added to what was.
  const std::array<std::uint32_t, 8> rounds{a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) state_[i] += rounds[i];
}

Sha256& Sha256::update(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t filled = size_bytes_ % pending_.size();
    const std::size_t taken = std::min(bytes.size(), pending_.size() - filled);
    std::copy_n(bytes.begin(), taken, pending_.begin() + static_cast<std::ptrdiff_t>(filled));
    size_bytes_ += taken;
    bytes = bytes.subspan(taken);
    if (filled + taken == pending_.size()) block(pending_.data());
  }
  return *this;
}

Digest Sha256::finish() {
  const std::uint64_t bits = size_bytes_ * 8;
  const std::size_t filled = size_bytes_ % 64;
  std::array<std::byte, 72> padding{std::byte{0x80}};
  const std::size_t zeros_end = filled < 56 ? 56 - filled : 120 - filled;
  std::array<std::byte, 8> length{};
  for (std::size_t i = 0; i < 8; ++i) length[i] = std::byte(bits >> (56 - 8 * i));
  update(std::span(padding).first(zeros_end));
  update(length);
  Digest digest{};
  for (std::size_t i = 0; i < 8; ++i) {
    for (std::size_t k = 0; k < 4; ++k) digest[4 * i + k] = std::byte(state_[i] >> (24 - 8 * k));
  }
  return digest;
}

Digest hmac(std::span<const std::byte> key, std::span<const std::byte> message) {
  std::array<std::byte, 64> block{};
  if (key.size() > block.size()) {
    const Digest shorter = Sha256().update(key).finish();
    std::copy(shorter.begin(), shorter.end(), block.begin());
  } else {
    std::copy(key.begin(), key.end(), block.begin());
  }
  std::array<std::byte, 64> inner{};
  std::array<std::byte, 64> outer{};
  for (std::size_t i = 0; i < block.size(); ++i) {
    inner[i] = block[i] ^ std::byte{0x36};
    outer[i] = block[i] ^ std::byte{0x5c};
  }
  const Digest hash = Sha256().update(inner).update(message).finish();
  return Sha256().update(outer).update(hash).finish();
}

bool equal_in_constant_time(const Digest& a, const Digest& b) noexcept {
  std::byte difference{0};
  for (std::size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == std::byte{0};
}

}  // namespace rungs::bootstrap::detail
