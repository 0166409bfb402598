#pragma once
/// @file file.hpp
/// Whole files: read at once, written so that a crash or a full disk leaves the old one.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rungs::file {

/// Everything in the file. @throws Error kSystem with path and reason (missing, a directory, not
/// readable)
std::vector<std::uint8_t> read_bytes(const std::string& path);
/// The same as text; bytes are not changed.
std::string read_text(const std::string& path);

/// Replaces `path` by a file with this content, or leaves it as it was: writes beside it, flushes
/// to the disk, renames, flushes the folder.
/// @throws Error kSystem with path and reason (no such folder, disk full, no permission); nothing
///         is left over
void write_atomic(const std::string& path, std::span<const std::byte> content);
void write_atomic(const std::string& path, std::string_view content);

/// Makes a folder and those above it; fine if it is there.
/// @throws Error kSystem with path and reason
void make_directories(const std::string& path);

}  // namespace rungs::file
