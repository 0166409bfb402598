#pragma once
// CRC-32 as in Ethernet and zlib: reflected polynomial 0xedb88320, all ones before and after.

#include <rungs/config.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace rungs::verbs::soft {

// Continues from `crc`, the CRC of the bytes before; 0 starts.
std::uint32_t crc32(std::uint32_t crc, std::span<const std::byte> bytes) noexcept;
// The same without the processor's carry-less multiplication.
std::uint32_t crc32_portable(std::uint32_t crc, std::span<const std::byte> bytes) noexcept;

}  // namespace rungs::verbs::soft
