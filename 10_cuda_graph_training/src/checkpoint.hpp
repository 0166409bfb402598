#pragma once
// The files of a checkpoint. One rank alone writes `<directory>/checkpoint.bin`:
//
//   bytes  what
//   8      "RUNGSCKP"
//   4      version, 1
//   4      bytes of the configuration text
//   8      steps done
//   8      elements of each array (ParameterLayout::count())
//   8      FNV-1a 64 of the whole file with these eight bytes as zero
//   …      configuration, "field=value\n" a line
//   …      weights, first moments, second moments: fp32
//
// Several ranks write one such file each (rank_checkpoint.hpp), and `checkpoint.bin` is then a
// manifest: "RUNGSMAN", no elements, and the configuration ends with what belongs together.
//
// Little-endian, as every machine that rungs runs on.

#include <cstdint>
#include <string>
#include <vector>

#include "config.hpp"

namespace rungs::training {

struct Checkpoint {
  std::uint64_t step = 0;
  std::vector<float> weights, moment1, moment2;
};

/// Reads a whole file that was found to be ours, whole and undamaged.
struct CheckpointFile {
  bool manifest = false;
  std::uint64_t step = 0;
  std::uint64_t checksum = 0;
  Fields fields;
  Checkpoint arrays;  ///< empty in a manifest
};
/// @throws Error kSystem if there is no such file; kInvalidArgument naming what is damaged
CheckpointFile read_file(const std::string& path);
/// Replaces the file whole or not at all. @return the checksum in its header
/// @throws Error kSystem naming the path
std::uint64_t write_file(const std::string& path, const Fields& fields,
                         const Checkpoint& checkpoint);
std::uint64_t write_manifest(const std::string& path, const Fields& fields, std::uint64_t step);

/// @param rule whether `fields` may have more steps than `saved`
/// @throws Error kInvalidArgument naming `path` and the first field that differs, with both values
void compare_fields(const std::string& path, const Fields& saved, const Fields& fields,
                    Resume rule);
/// @throws Error kInvalidArgument unless each array of the file has `count` elements
void require_count(const std::string& path, const CheckpointFile& file, std::size_t count);

/// Replaces the directory's checkpoint, whatever wrote it, whole or not at all.
/// @throws Error kSystem naming the path
void write_checkpoint(const std::string& directory, const Fields& fields,
                      const Checkpoint& checkpoint);
/// @param count elements that each array must have
/// @throws Error kSystem if the file cannot be read; kInvalidArgument naming what is damaged, that
///         several ranks wrote it, or the first field that differs from `fields`
Checkpoint read_checkpoint(const std::string& directory, const Fields& fields, Resume rule,
                           std::size_t count);

}  // namespace rungs::training
