#include <rungs/collectives/all_well.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace rungs::collectives {
namespace {

struct Report {
  std::int32_t code;
  char problem[508];
};

}  // namespace

void all_well(bootstrap::Group& group, ErrorCode code, const std::string& problem) {
  Report mine{};
  mine.code = static_cast<std::int32_t>(code);
  std::snprintf(mine.problem, sizeof(mine.problem), "%s", problem.c_str());
  const std::vector<Report> all = group.all_gather(mine);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].problem[0] == '\0') continue;
    throw Error(static_cast<ErrorCode>(all[rank].code),
                concat("rank ", rank, ": ", all[rank].problem), __FILE__, __LINE__);
  }
}

}  // namespace rungs::collectives
