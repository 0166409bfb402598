#pragma once
// A step that must succeed on every rank or fail on every rank.

#include <rungs/bootstrap/group.hpp>
#include <rungs/core/error.hpp>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace rungs::training {

/// Runs `mine` on this rank and returns what every rank's gave, a number; if one threw, all throw
/// the first rank's error, and those that it did not happen to say whose it was. Collective.
/// @param undo called before such an error is thrown: then no rank goes on. Not called when a rank
///        was lost or late, for then others may
template <class F>
std::vector<std::uint64_t> on_every_rank(bootstrap::Group& group, F&& mine,
                                         const std::function<void()>& undo = {}) {
  struct Outcome {
    std::uint64_t value;
    std::int32_t code;
    std::int32_t failed;
    char text[496];
  };
  Outcome outcome{};
  try {
    outcome.value = std::forward<F>(mine)();
  } catch (const Error& error) {
    if (group.lost().has_value()) throw;  // nobody to tell
    outcome.failed = 1;
    outcome.code = static_cast<std::int32_t>(error.code());
    std::snprintf(outcome.text, sizeof(outcome.text), "%s", error.message().c_str());
  }
  const std::vector<Outcome> all = group.all_gather(outcome);
  std::vector<std::uint64_t> values;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const Outcome& theirs = all[rank];
    if (theirs.failed != 0) {
      if (undo) undo();
      const bool own = static_cast<int>(rank) == group.rank();
      throw Error(static_cast<ErrorCode>(theirs.code),
                  own ? std::string(theirs.text) : concat("rank ", rank, ": ", theirs.text),
                  __FILE__, __LINE__);
    }
    values.push_back(theirs.value);
  }
  return values;
}

}  // namespace rungs::training
