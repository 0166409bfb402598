#include "rank_checkpoint.hpp"

#include <rungs/core/error.hpp>
#include <rungs/core/file.hpp>
#include <rungs/core/log.hpp>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <utility>

#include "detail/agree.hpp"

namespace rungs::training {
namespace {

constexpr const char* kNodes = "ranks.nodes";
constexpr const char* kGeneration = "ranks.generation";
constexpr const char* kRank = "ranks.rank";

std::string checksum_field(std::size_t rank) { return concat("ranks.", rank, ".checksum"); }

std::string rank_path(const std::string& directory, std::uint64_t generation, std::size_t rank) {
  return concat(directory, "/checkpoint-", generation, "-rank", rank, ".bin");
}

std::string joined(const std::vector<int>& nodes) {
  std::string text;
  for (const int node : nodes) text += concat(text.empty() ? "" : " ", node);
  return text;
}

std::string hexadecimal(std::uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof(text), "%016" PRIx64, value);
  return text;
}

const std::string& field(const std::string& path, const Fields& fields, const std::string& name) {
  const auto found = std::find_if(fields.begin(), fields.end(), [&name](const auto& candidate) {
    return candidate.first == name;
  });
  RUNGS_REQUIRE(found != fields.end(), path, ": no readable field ", name);
  return found->second;
}

std::uint64_t generation_of(const std::string& path, const Fields& fields) {
  return std::strtoull(field(path, fields, kGeneration).c_str(), nullptr, 10);
}

/// The configuration without what ranks add to it.
Fields without_ranks(Fields fields) {
  std::erase_if(fields, [](const auto& each) { return each.first.rfind("ranks.", 0) == 0; });
  return fields;
}

/// The generation that the directory's manifest has; 0 without one. A damaged one counts as none:
/// it is about to be replaced.
std::uint64_t standing_generation(const std::string& directory) {
  const std::string path = checkpoint_path(directory);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return 0;
  try {
    const CheckpointFile file = read_file(path);
    return file.manifest ? generation_of(path, file.fields) : 0;
  } catch (const Error& error) {
    log::warn("the checkpoint that will be replaced is damaged: ", error.message());
    return 0;
  }
}

/// That file, if it is whole and the one the manifest means.
CheckpointFile read_rank_file(const std::string& directory, const std::string& manifest_path,
                              const CheckpointFile& manifest, std::size_t rank) {
  const std::string path =
      rank_path(directory, generation_of(manifest_path, manifest.fields), rank);
  CheckpointFile file = read_file(path);
  const std::string meant = field(manifest_path, manifest.fields, checksum_field(rank));
  RUNGS_REQUIRE(hexadecimal(file.checksum) == meant, path, ": is not the file that ", manifest_path,
                " names: its checksum is ", hexadecimal(file.checksum), ", not ", meant);
  const std::string whose = field(path, file.fields, kRank);
  RUNGS_REQUIRE(whose == std::to_string(rank), path, ": was written by rank ", whose);
  return file;
}

}  // namespace

std::string describe(const Ranks& ranks) {
  if (ranks.size() == 1) return "one rank";
  return concat(ranks.size(), " ranks on nodes ", joined(ranks.nodes));
}

Ranks ranks_of(const bootstrap::Group& group) {
  Ranks ranks;
  ranks.nodes.resize(static_cast<std::size_t>(group.size()));
  const std::vector<std::vector<int>> hosts = group.hosts();
  for (std::size_t node = 0; node < hosts.size(); ++node) {
    for (const int rank : hosts[node])
      ranks.nodes[static_cast<std::size_t>(rank)] = static_cast<int>(node);
  }
  return ranks;
}

Ranks ranks_of(const std::string& path, const CheckpointFile& manifest) {
  std::istringstream text(field(path, manifest.fields, kNodes));
  Ranks ranks;
  ranks.nodes.clear();
  for (int node = 0; text >> node;) ranks.nodes.push_back(node);
  RUNGS_REQUIRE(!ranks.nodes.empty() && text.eof(), path, ": no readable field ", kNodes);
  return ranks;
}

void require_ranks(const std::string& path, const Ranks& saved, const Ranks& wanted) {
  RUNGS_REQUIRE(saved.nodes == wanted.nodes, path, ": was saved by ", describe(saved),
                ", this trainer is ", describe(wanted),
                ". A run goes on with as many ranks in the same order on its nodes: their sums "
                "would have other bits otherwise");
}

void RankCheckpoints::save(const std::string& directory, const Fields& fields,
                           const Checkpoint& mine) {
  const auto rank = static_cast<std::size_t>(group_.rank());
  const bool leads = rank == 0;
  const std::uint64_t generation = on_every_rank(group_, [&]() -> std::uint64_t {
                                     file::make_directories(directory);
                                     return leads ? standing_generation(directory) + 1 : 0;
                                   }).front();
  const std::string path = rank_path(directory, generation, rank);
  const auto undo = [&] {
    std::error_code ignored;
    if (standing_generation(directory) != generation) std::filesystem::remove(path, ignored);
  };
  // 1. Every rank's file, beside those that stand.
  const auto write_own = [&] {
    Fields own = fields;
    own.emplace_back(kRank, std::to_string(rank));
    own.emplace_back(kNodes, joined(ranks_.nodes));
    return write_file(path, own, mine);
  };
  const std::vector<std::uint64_t> checksums = on_every_rank(group_, write_own, undo);
  // 2. The manifest, when all are on the disk.
  const auto write_all = [&]() -> std::uint64_t {
    if (!leads) return 0;
    Fields all = fields;
    all.emplace_back(kNodes, joined(ranks_.nodes));
    all.emplace_back(kGeneration, std::to_string(generation));
    for (std::size_t r = 0; r < checksums.size(); ++r)
      all.emplace_back(checksum_field(r), hexadecimal(checksums[r]));
    return write_manifest(checkpoint_path(directory), all, mine.step);
  };
  on_every_rank(group_, write_all, undo);
  // 3. What nobody names any more; also what a save that a rank's death ended has left.
  if (leads) remove_rank_files(directory, generation);
}

Checkpoint RankCheckpoints::load(const std::string& directory, const Fields& fields, Resume rule,
                                 std::size_t count) {
  Checkpoint mine;
  const std::vector<std::uint64_t> found = on_every_rank(group_, [&] {
    const std::string path = checkpoint_path(directory);
    const CheckpointFile manifest = read_file(path);
    mine = load_mine(path, directory, manifest, fields, rule, count);
    return manifest.checksum;
  });
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    RUNGS_REQUIRE(found[rank] == found.front(), checkpoint_path(directory), ": rank ", rank,
                  " reads another checkpoint than rank 0: all ranks need the same folder");
  }
  return mine;
}

Checkpoint RankCheckpoints::load_mine(const std::string& path, const std::string& directory,
                                      const CheckpointFile& manifest, const Fields& fields,
                                      Resume rule, std::size_t count) const {
  require_ranks(path, manifest.manifest ? ranks_of(path, manifest) : Ranks{}, ranks_);
  compare_fields(path, without_ranks(manifest.fields), fields, rule);
  const auto rank = static_cast<std::size_t>(group_.rank());
  CheckpointFile file = read_rank_file(directory, path, manifest, rank);
  require_count(path, file, count);
  return std::move(file.arrays);
}

void verify_rank_files(const std::string& directory, const CheckpointFile& manifest) {
  const std::string path = checkpoint_path(directory);
  const auto ranks = static_cast<std::size_t>(ranks_of(path, manifest).size());
  for (std::size_t rank = 0; rank < ranks; ++rank) read_rank_file(directory, path, manifest, rank);
}

void remove_rank_files(const std::string& directory, std::uint64_t keep) noexcept {
  try {
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
      const std::string name = entry.path().filename().string();
      std::uint64_t generation = 0;
      std::uint64_t rank = 0;
      if (std::sscanf(name.c_str(), "checkpoint-%" SCNu64 "-rank%" SCNu64, &generation, &rank) != 2)
        continue;
      // Only a name that this program would have made itself.
      if (entry.path() != std::filesystem::path(rank_path(directory, generation, rank))) continue;
      if (generation != keep) std::filesystem::remove(entry.path());
    }
  } catch (const std::exception& error) {
    log::warn("files of an older checkpoint could not be removed: ", error.what());
  }
}

}  // namespace rungs::training
