#include "bootstrap/subgroup.hpp"

#include "bootstrap/id_content.hpp"

#include <rungs/core/random_bytes.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <span>
#include <string>
#include <utility>

namespace rungs::bootstrap::detail {
namespace {

// Messages of callers are told apart by tags of their own; this one is nobody's by accident.
constexpr std::uint64_t kTag = 0x7375'6267'726f'7570;  // "subgroup"

enum class Answer : std::uint8_t { kRefusal = 0, kId = 1 };

std::string show(const std::vector<int>& members) {
  std::string text = "{";
  for (const int rank : members) text += concat(text.size() > 1 ? ", " : "", rank);
  return text + "}";
}

void check(const Member& member, const std::vector<int>& members) {
  RUNGS_REQUIRE(!members.empty(), "subgroup: no members; rank ", member.rank(),
                " must be one of them");
  std::vector<int> sorted = members;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    RUNGS_REQUIRE(sorted[i] >= 0 && sorted[i] < member.size(), "subgroup ", show(members),
                  ": there is no rank ", sorted[i], " among ", member.size());
    RUNGS_REQUIRE(i == 0 || sorted[i] != sorted[i - 1], "subgroup ", show(members), ": rank ",
                  sorted[i], " is named twice");
  }
  RUNGS_REQUIRE(std::binary_search(sorted.begin(), sorted.end(), member.rank()), "subgroup ",
                show(members), ": rank ", member.rank(), " called it and is not a member");
}

std::vector<std::byte> encode_list(const std::vector<int>& members) {
  ByteWriter out;
  for (const int rank : members) out.number(std::int32_t(rank));
  return out.take();
}

std::vector<int> decode_list(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  std::vector<int> members(bytes.size() / sizeof(std::int32_t));
  for (int& rank : members) rank = in.number<std::int32_t>();
  return members;
}

// Adds what the wait was for to an error of the messages below.
template <class Call>
auto on_behalf_of(const std::vector<int>& members, const Call& call) {
  try {
    return call();
  } catch (const Error& error) {
    const bool late = error.code() == ErrorCode::kTimeout;
    throw Error(error.code(),
                concat("subgroup ", show(members), ": ", error.message(),
                       late ? ". Has every member called it, with the same list?" : ""),
                __FILE__, __LINE__);
  }
}

// The leader's part. Empty, or how the lists differ.
std::string collect(Member& member, const std::vector<int>& members, const Deadline& deadline) {
  std::string differs;
  for (const int rank : members) {
    if (rank == member.rank()) continue;
    const std::vector<int> its = decode_list(receive_message(member, rank, kTag, deadline));
    if (its != members && differs.empty()) {
      differs = concat("subgroup: ranks disagree on the members: rank ", member.rank(), " says ",
                       show(members), ", rank ", rank, " says ", show(its),
                       "; give every member the same list");
    }
  }
  return differs;
}

UniqueId decode_answer(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  const Answer answer{in.number<std::uint8_t>()};
  if (answer == Answer::kRefusal)
    throw Error(ErrorCode::kInvalidArgument, in.text(), __FILE__, __LINE__);
  UniqueId id;
  in.bytes(std::as_writable_bytes(std::span(id.bytes)));
  RUNGS_ASSERT(in.ok(), "a subgroup's leader answered with ", bytes.size(), " bytes");
  return id;
}

}  // namespace

SubgroupStart start_subgroup(Member& member, const std::vector<int>& members,
                             double timeout_seconds) {
  check(member, members);
  const Deadline deadline = Deadline::after(std::chrono::duration<double>(timeout_seconds));
  const int leader = *std::min_element(members.begin(), members.end());
  SubgroupStart start;
  UniqueId id;
  if (member.rank() == leader) {
    // 1. Every member is here and means the same ranks.
    const std::string differs =
        on_behalf_of(members, [&] { return collect(member, members, deadline); });
    ByteWriter answer;
    if (differs.empty()) {
      // 2. A rendezvous for them, where this rank is known to be reachable.
      RootServer::Setup setup;
      setup.listen = member.record(leader).address.with_port(0);
      fill_random(setup.key);
      setup.ranks = static_cast<int>(members.size());
      setup.timeout_seconds = timeout_seconds;
      start.root = std::make_unique<RootServer>(setup);
      id = encode({start.root->address(), setup.ranks, setup.key});
      answer.number(std::uint8_t(Answer::kId)).bytes(std::as_bytes(std::span(id.bytes)));
    } else {
      answer.number(std::uint8_t(Answer::kRefusal)).text(differs);
    }
    for (const int rank : members) {
      if (rank != leader) send_message(member, rank, kTag, answer.written(), deadline);
    }
    if (!differs.empty()) throw Error(ErrorCode::kInvalidArgument, differs, __FILE__, __LINE__);
  } else {
    const std::vector<std::byte> answer = on_behalf_of(members, [&] {
      send_message(member, leader, kTag, encode_list(members), deadline);
      return receive_message(member, leader, kTag, deadline);
    });
    id = decode_answer(answer);
  }
  // 3. How to join it.
  const IdContent content = decode(id);
  const auto place = std::find(members.begin(), members.end(), member.rank());
  start.request.roots = {content.root};
  start.request.key = content.key;
  start.request.rank = static_cast<int>(place - members.begin());
  start.request.size = static_cast<int>(members.size());
  start.request.deadline = deadline;
  start.request.listen_at = member.record(member.rank()).address;
  start.request.above = &member;
  return start;
}

}  // namespace rungs::bootstrap::detail
