#include "stages.hpp"

#include "usage.hpp"

#include <fmt/format.h>
#include <rungs/attention/catalog.hpp>
#include <rungs/bootstrap/catalog.hpp>
#include <rungs/collectives/catalog.hpp>
#include <rungs/core/suggest.hpp>
#include <rungs/gemm/catalog.hpp>
#include <rungs/moe/catalog.hpp>
#include <rungs/protocols/catalog.hpp>
#include <rungs/symmetric/catalog.hpp>
#include <rungs/topology/catalog.hpp>
#include <rungs/training/catalog.hpp>
#include <rungs/transport/catalog.hpp>
#include <rungs/verbs/catalog.hpp>

#include <algorithm>
#include <iterator>

namespace rungs::cli {
namespace {

/// Whether `word` names the stage: its number, with or without the zero, its folder, or a word of
/// the folder.
bool names_stage(const Stage& stage, std::string_view word) {
  if (word == stage.folder || word == std::to_string(stage.number) ||
      word == stage.folder.substr(0, 2)) {
    return true;
  }
  for (std::size_t begin = 3; begin < stage.folder.size();) {
    const std::size_t end = std::min(stage.folder.find('_', begin), stage.folder.size());
    if (word == stage.folder.substr(begin, end - begin)) return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace

std::vector<ladder::Operation> all_operations() {
  // Explicit, because static linking would drop catalogs that register themselves.
  std::vector<ladder::Operation> all;
  for (auto catalog :
       {&verbs::operations, &bootstrap::operations, &topology::operations, &transport::operations,
        &collectives::operations, &protocols::operations, &symmetric::operations, &gemm::operations,
        &attention::operations, &moe::operations, &training::operations}) {
    auto operations = catalog();
    std::move(operations.begin(), operations.end(), std::back_inserter(all));
  }
  return all;
}

std::vector<ladder::Operation> find_operations(const std::string& word) {
  std::vector<ladder::Operation> all = all_operations();
  if (word.empty()) return all;
  const auto stage = std::find_if(kStages.begin(), kStages.end(), [&](const Stage& candidate) {
    return names_stage(candidate, word);
  });
  std::vector<ladder::Operation> found;
  std::copy_if(all.begin(), all.end(), std::back_inserter(found),
               [&](const ladder::Operation& operation) {
                 return operation.name == word ||
                        (stage != kStages.end() && operation.stage == stage->folder);
               });
  if (!found.empty()) return found;
  if (stage != kStages.end()) {
    throw UsageError(
        fmt::format("stage {} is still to come: it has no operation to run", stage->folder));
  }
  std::vector<std::string> candidates;
  candidates.reserve(all.size() + kStages.size());
  for (const ladder::Operation& operation : all) candidates.push_back(operation.name);
  for (const Stage& candidate : kStages) candidates.emplace_back(candidate.folder);
  const std::string nearest = did_you_mean(word, candidates);
  throw UsageError(fmt::format("no stage or operation is called '{}'{} 'rungs list' shows all",
                               word, nearest.empty() ? "." : nearest));
}

std::string stages_to_come() {
  std::string numbers;
  for (const Stage& stage : kStages) {
    if (!stage.today.empty()) continue;
    numbers += fmt::format("{}{:02}", numbers.empty() ? "" : ", ", stage.number);
  }
  return numbers;
}

}  // namespace rungs::cli
