#pragma once
/// @file random_bytes.hpp
/// Bytes that nobody can guess: for names, nonces and secrets. Not for test data.

#include <rungs/config.hpp>

#include <cstddef>
#include <span>

namespace rungs {

/// Fills `bytes` from the kernel's random source. @throws Error kSystem
void fill_random(std::span<std::byte> bytes);

}  // namespace rungs
