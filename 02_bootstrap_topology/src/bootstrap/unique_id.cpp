#include <rungs/bootstrap/unique_id.hpp>

#include "bootstrap/bytes.hpp"
#include "bootstrap/id_content.hpp"

#include <rungs/core/error.hpp>

#include <algorithm>
#include <cctype>

namespace rungs::bootstrap {
namespace {

constexpr std::uint64_t kMagic = 0x31'44'49'53'47'4e'55'52;  // "RUNGSID1"
constexpr std::uint16_t kVersion = 1;
constexpr std::size_t kChecked = 124;

std::uint32_t checksum(std::span<const std::byte> bytes) {
  const detail::Digest digest = detail::Sha256().update(bytes).finish();
  return detail::ByteReader(digest).number<std::uint32_t>();
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

namespace detail {

UniqueId encode(const IdContent& content) {
  ByteWriter out;
  out.number(kMagic).number(kVersion).number(std::uint16_t{0}).number(std::int32_t(content.ranks));
  content.root.write(out);
  out.bytes(content.key);
  std::vector<std::byte> bytes = out.take();
  bytes.resize(kChecked);
  ByteWriter sum;
  sum.number(checksum(bytes));
  bytes.insert(bytes.end(), sum.written().begin(), sum.written().end());
  UniqueId id;
  std::transform(bytes.begin(), bytes.end(), id.bytes.begin(),
                 [](std::byte b) { return static_cast<std::uint8_t>(b); });
  return id;
}

IdContent decode(const UniqueId& id) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(id.bytes));
  ByteReader in(bytes);
  RUNGS_REQUIRE(in.number<std::uint64_t>() == kMagic,
                "unique id: these 128 bytes are none (was it passed on to this rank?)");
  const auto version = in.number<std::uint16_t>();
  RUNGS_REQUIRE(version == kVersion, "unique id: version ", version,
                ", this release reads version ", kVersion, ": all ranks must run the same release");
  RUNGS_REQUIRE(ByteReader(bytes.subspan(kChecked)).number<std::uint32_t>() ==
                    checksum(bytes.first(kChecked)),
                "unique id: wrong checksum: it was damaged on its way to this rank");
  (void)in.number<std::uint16_t>();
  IdContent content;
  content.ranks = in.number<std::int32_t>();
  content.root = Address::read(in);
  in.bytes(content.key);
  return content;
}

Key key_of(const std::string& secret) {
  return Sha256().update("rungs bootstrap secret").update(secret).finish();
}

}  // namespace detail

std::string UniqueId::to_hex() const {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

UniqueId UniqueId::from_hex(std::string_view text) {
  UniqueId id;
  RUNGS_REQUIRE(text.size() == 2 * id.bytes.size(), "unique id: ", text.size(),
                " characters, 256 hexadecimal digits are needed");
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int value = digit(text[i]);
    RUNGS_REQUIRE(value >= 0, "unique id: character ", i + 1, " is no hexadecimal digit");
    id.bytes[i / 2] = static_cast<std::uint8_t>(id.bytes[i / 2] * 16 + value);
  }
  (void)detail::decode(id);
  return id;
}

}  // namespace rungs::bootstrap
