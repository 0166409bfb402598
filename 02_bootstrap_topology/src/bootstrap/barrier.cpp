#include "bootstrap/member.hpp"

namespace rungs::bootstrap::detail {

// Dissemination (Hensgen, Finkel, Manber 1988): in round k a rank tells the one 2^k to its right
// that it is there and hears from the one 2^k to its left. After ⌈log2 n⌉ rounds it has heard,
// through others, from all.
void dissemination_barrier(Member& member, const Call& call) {
  const int size = member.size();
  std::uint32_t round = 0;
  for (int distance = 1; distance < size; distance *= 2, ++round) {
    const int from = (member.rank() + size - distance) % size;
    member.send((member.rank() + distance) % size, call, round, {});
    (void)member.receive(from, call, round, concat("rank ", from));
  }
}

}  // namespace rungs::bootstrap::detail
