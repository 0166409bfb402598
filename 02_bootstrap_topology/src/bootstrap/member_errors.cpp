// What a rank says when a call of its group fails.

#include "bootstrap/member.hpp"

#include <algorithm>
#include <chrono>

namespace rungs::bootstrap::detail {
namespace {

using namespace std::chrono_literals;

constexpr auto kWhereLimit = 500ms;

std::string describe(FrameType type, std::uint64_t operation, std::uint64_t block_bytes) {
  std::string text = concat(to_string(type), ' ', operation);
  if (block_bytes > 0) text += concat(" with ", block_bytes, " bytes a rank");
  return text;
}

}  // namespace

std::string to_string(const Call& call) {
  const char* joint = call.is_collective() ? " " : " with tag ";
  return concat(to_string(call.type), joint, call.operation);
}

void Member::throw_lost(const std::string& doing) {
  const News& news = *mailbox().news();
  throw Error(news.code, concat("rank ", rank_, ", ", doing, ": ", news.lost.reason), __FILE__,
              __LINE__);
}

void Member::throw_left(int who, const std::string& doing) {
  // Whoever left because of some news told it first.
  if (mailbox().news() != nullptr) throw_lost(doing);
  RUNGS_THROW(kPeerLost, "rank ", rank_, ", ", doing, ": rank ", who, " left the group after ",
              mailbox().left_after(who).value_or(0), " collective calls");
}

void Member::break_group(ErrorCode code, int lost_rank, const std::string& text) {
  service_->spread({code, {lost_rank, text}});
  // Somebody else's news may have been first: it names the cause, this text only a consequence.
  if (mailbox().news()->lost.reason != text) throw_lost(text);
  throw Error(code, text, __FILE__, __LINE__);
}

void Member::throw_mismatch(int from, const FrameHeader& seen, const Call& call,
                            std::uint32_t step) {
  std::string text = concat("the ranks make different calls: rank ", from, " is in ",
                            describe(seen.type, seen.operation, seen.block_bytes), ", rank ", rank_,
                            " in ", describe(call.type, call.operation, call.block_bytes));
  if (seen.type == call.type && seen.operation == call.operation &&
      seen.block_bytes == call.block_bytes) {
    text += concat(", but at step ", seen.step, " instead of ", step);
  }
  break_group(ErrorCode::kInvalidArgument, from, text);
}

// A rank that waits knows only whom it waits for, and that one may itself be waiting for a third.
// So the question who has not begun this call goes round the ring.
std::string Member::who_is_missing(const Call& call, int& missing) {
  const std::uint64_t query = ++queries_;
  service_->ask_where(query);
  const auto answer = mailbox().wait_where(query, Deadline::after(kWhereLimit));
  if (!answer) return "; the question who is missing did not come round the ring";
  std::vector<int> behind;
  for (const Whereabouts& one : *answer) {
    if (one.entered < call.operation) behind.push_back(one.rank);
  }
  if (behind.empty()) return "; all ranks have begun this call";
  std::sort(behind.begin(), behind.end());
  missing = behind.front();
  return concat("; not in this call yet: ", format_ranks(behind));
}

void Member::throw_timeout(const Call& call, const std::string& doing) {
  int missing = -1;
  const double waited = call.deadline.waited().count();
  const std::string who = who_is_missing(call, missing);
  break_group(ErrorCode::kTimeout, missing,
              concat("rank ", rank_, " waited ", waited, " s in ", doing, who));
}

}  // namespace rungs::bootstrap::detail
