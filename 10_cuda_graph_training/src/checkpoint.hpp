#pragma once
// The file of a checkpoint: `<directory>/checkpoint.bin`.
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

/// Replaces the directory's checkpoint whole or not at all. @throws Error kSystem naming the path
void write_checkpoint(const std::string& directory, const Fields& fields,
                      const Checkpoint& checkpoint);
/// @param rule whether `fields` may have more steps than the file
/// @param count elements that each array must have
/// @throws Error kSystem if the file cannot be read; kInvalidArgument naming what is damaged, or
/// the first field that
///         differs from `fields`
Checkpoint read_checkpoint(const std::string& directory, const Fields& fields, Resume rule,
                           std::size_t count);

}  // namespace rungs::training
