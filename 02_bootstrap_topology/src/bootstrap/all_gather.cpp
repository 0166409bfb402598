// The three ways of all_gather: the ladder of this stage.

#include "bootstrap/member.hpp"

#include <algorithm>

namespace rungs::bootstrap::detail {
namespace {

// Copies a received piece to its place; a wrong size cannot be: the block size was compared.
void place(std::span<const std::byte> piece, std::span<std::byte> to) {
  RUNGS_ASSERT(piece.size() == to.size(), "block of ", piece.size(), " bytes, not ", to.size());
  std::copy(piece.begin(), piece.end(), to.begin());
}

std::span<std::byte> block_of(std::span<std::byte> all, int rank, std::size_t size_bytes) {
  return all.subspan(static_cast<std::size_t>(rank) * size_bytes, size_bytes);
}

}  // namespace

//   step 0   every rank sends its block to rank 0
//   step 1   rank 0 sends all n blocks to every rank
void star_all_gather(Member& member, const Call& call, std::span<const std::byte> mine,
                     std::span<std::byte> all) {
  constexpr int kCentre = 0;
  place(mine, block_of(all, member.rank(), mine.size()));
  if (member.rank() != kCentre) {
    member.send(kCentre, call, 0, mine);
    place(member.receive(kCentre, call, 1, "all blocks from rank 0"), all);
    return;
  }
  for (int rank = 1; rank < member.size(); ++rank) {
    place(member.receive(rank, call, 0, concat("the block of rank ", rank)),
          block_of(all, rank, mine.size()));
  }
  for (int rank = 1; rank < member.size(); ++rank) member.send(rank, call, 1, all);
}

//   step s   every rank sends the block it got in the step before (its own at first) to the next
//            rank and gets that of rank - 1 - s from the one before it
void ring_all_gather(Member& member, const Call& call, std::span<const std::byte> mine,
                     std::span<std::byte> all) {
  const int size = member.size();
  place(mine, block_of(all, member.rank(), mine.size()));
  int held = member.rank();
  for (int step = 0; step < size - 1; ++step) {
    const auto number = static_cast<std::uint32_t>(step);
    member.send(member.next(), call, number, block_of(all, held, mine.size()));
    held = (held + size - 1) % size;
    const std::string awaited =
        concat("the block of rank ", held, " from rank ", member.previous());
    place(member.receive(member.previous(), call, number, awaited),
          block_of(all, held, mine.size()));
  }
}

//   step s   every rank sends a block to the right and one to the left, and gets that of
//            rank - 1 - s from the left and that of rank + 1 + s from the right
void both_ways_all_gather(Member& member, const Call& call, std::span<const std::byte> mine,
                          std::span<std::byte> all) {
  const int size = member.size();
  const int rank = member.rank();
  const auto block = [&](int distance) {
    return block_of(all, (rank + distance + size) % size, mine.size());
  };
  place(mine, block(0));
  // With an even number of ranks the one opposite is reached by one direction only.
  const int steps_right = size / 2;
  const int steps_left = (size - 1) / 2;
  for (int step = 0; step < steps_right; ++step) {
    const auto number = static_cast<std::uint32_t>(step);
    const bool left = step < steps_left;
    member.send(member.next(), call, number, block(-step));
    if (left) member.send(member.previous(), call, number, block(step));
    const auto take = [&](int from, int distance) {
      const int whose = (rank + distance + size) % size;
      const std::string awaited = concat("the block of rank ", whose, " from rank ", from);
      place(member.receive(from, call, number, awaited), block(distance));
    };
    take(member.previous(), -1 - step);
    if (left) take(member.next(), 1 + step);
  }
}

}  // namespace rungs::bootstrap::detail
