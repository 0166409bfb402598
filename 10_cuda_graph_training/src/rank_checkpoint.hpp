#pragma once
// A checkpoint of several ranks: a file a rank, and a manifest that makes them one.
//
//     checkpoint.bin                 the manifest: configuration, steps, ranks and their nodes,
//                                    generation, and the checksum of every rank's file
//     checkpoint-7-rank0.bin …       what rank 0 held in generation 7
//
// 1. Every rank writes its file of the next generation, beside those that the manifest names.
// 2. When all have, rank 0 renames the new manifest into place: from here on it is the checkpoint.
// 3. Then the old generation is removed.
// Whoever dies, and whenever: the manifest that stands names files that are whole.

#include <rungs/bootstrap/group.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint.hpp"

namespace rungs::training {

/// Who wrote a checkpoint, or who wants to go on with it.
struct Ranks {
  /// The node of each rank, numbered from 0 in the order of their first ranks. One rank: {0}.
  std::vector<int> nodes = {0};
  [[nodiscard]] int size() const noexcept { return static_cast<int>(nodes.size()); }
};
/// "one rank", "4 ranks on nodes 0 0 1 1"
std::string describe(const Ranks& ranks);
/// Every rank's node, as the group sees them.
Ranks ranks_of(const bootstrap::Group& group);
/// What a manifest says of them. @throws Error kInvalidArgument naming the field that is missing
Ranks ranks_of(const std::string& path, const CheckpointFile& manifest);

/// @throws Error kInvalidArgument naming both, unless they are as many on the same nodes: another
///         placement would add gradients in another order
void require_ranks(const std::string& path, const Ranks& saved, const Ranks& wanted);

/// What a rank does with a checkpoint together with the others.
class RankCheckpoints {
 public:
  explicit RankCheckpoints(bootstrap::Group& group) : group_(group), ranks_(ranks_of(group)) {}

  /// Collective. Returns when the checkpoint is whole; on an error the old one is as it was.
  /// @throws Error on every rank what went wrong on one, naming it
  void save(const std::string& directory, const Fields& fields, const Checkpoint& mine);
  /// Collective: this rank's part, once every rank has found its own whole and of this model.
  /// @throws Error on every rank what is wrong with one's
  [[nodiscard]] Checkpoint load(const std::string& directory, const Fields& fields, Resume rule,
                                std::size_t count);
  [[nodiscard]] const Ranks& ranks() const noexcept { return ranks_; }

 private:
  [[nodiscard]] Checkpoint load_mine(const std::string& path, const std::string& directory,
                                     const CheckpointFile& manifest, const Fields& fields,
                                     Resume rule, std::size_t count) const;
  bootstrap::Group& group_;
  Ranks ranks_;
};

/// Checks that every file a manifest names is whole and the one it means.
/// @throws Error kSystem if one is missing; kInvalidArgument naming what is damaged
void verify_rank_files(const std::string& directory, const CheckpointFile& manifest);
/// Removes rank files of every generation but `keep`. Failures are logged: they cost space only.
void remove_rank_files(const std::string& directory, std::uint64_t keep) noexcept;

}  // namespace rungs::training
