// redux.sync and match.sync, and what a thread can ask about its warp.

#include <rungs/emulator/model_warp.hpp>

#include "gathering.hpp"
#include "sanitizer.hpp"
#include "worker.hpp"

#include <algorithm>
#include <bit>

namespace rungs::emulator {
namespace {

using model::Redux;

struct Lane {
  std::uint64_t value;
  std::uint32_t result;
};

Lane& lane_of(const Gathering& gathering, unsigned lane) {
  return *static_cast<Lane*>(gathering.operands[lane]);
}

template <class Visit>
void for_each_lane(const Gathering& gathering, Visit&& visit) {
  for (std::uint32_t rest = gathering.mask; rest != 0; rest &= rest - 1)
    visit(lane_of(gathering, static_cast<unsigned>(std::countr_zero(rest))),
          static_cast<unsigned>(std::countr_zero(rest)));
}

std::uint32_t combine(Redux operation, std::uint32_t a, std::uint32_t b) {
  const auto signed_a = static_cast<std::int32_t>(a), signed_b = static_cast<std::int32_t>(b);
  switch (operation) {
    case Redux::kAdd:
      return a + b;
    case Redux::kMinU:
      return std::min(a, b);
    case Redux::kMaxU:
      return std::max(a, b);
    case Redux::kMinS:
      return static_cast<std::uint32_t>(std::min(signed_a, signed_b));
    case Redux::kMaxS:
      return static_cast<std::uint32_t>(std::max(signed_a, signed_b));
    case Redux::kAnd:
      return a & b;
    case Redux::kOr:
      return a | b;
    case Redux::kXor:
      return a ^ b;
  }
  return 0;
}

template <Redux kOperation>
void reduce(const Gathering& gathering, Location) {
  const auto first = static_cast<unsigned>(std::countr_zero(gathering.mask));
  auto total = static_cast<std::uint32_t>(lane_of(gathering, first).value);
  for_each_lane(gathering, [&](const Lane& lane, unsigned i) {
    if (i != first) total = combine(kOperation, total, static_cast<std::uint32_t>(lane.value));
  });
  for_each_lane(gathering, [&](Lane& lane, unsigned) { lane.result = total; });
}

void match_each(const Gathering& gathering, Location) {
  for_each_lane(gathering, [&](Lane& lane, unsigned) {
    lane.result = 0;
    for_each_lane(gathering, [&](const Lane& other, unsigned i) {
      if (other.value == lane.value) lane.result |= 1u << i;
    });
  });
}

void match_same(const Gathering& gathering, Location) {
  const auto first = static_cast<unsigned>(std::countr_zero(gathering.mask));
  bool same = true;
  for_each_lane(gathering, [&](const Lane& lane, unsigned) {
    same = same && lane.value == lane_of(gathering, first).value;
  });
  for_each_lane(gathering, [&](Lane& lane, unsigned) { lane.result = same ? gathering.mask : 0; });
}

struct Operation {
  const char* name;
  Complete complete;
};

constexpr Operation kRedux[] = {
    {"redux.add", reduce<Redux::kAdd>},      {"redux.min.u32", reduce<Redux::kMinU>},
    {"redux.max.u32", reduce<Redux::kMaxU>}, {"redux.min.s32", reduce<Redux::kMinS>},
    {"redux.max.s32", reduce<Redux::kMaxS>}, {"redux.and", reduce<Redux::kAnd>},
    {"redux.or", reduce<Redux::kOr>},        {"redux.xor", reduce<Redux::kXor>}};

}  // namespace

namespace model {

std::uint32_t redux(Redux operation, std::uint32_t mask, std::uint32_t value, Location where) {
  const sanitizer::Mute mute;
  Lane lane{value, 0};
  const auto [name, complete] = kRedux[static_cast<int>(operation)];
  gather(name, mask, &lane, complete, where);
  return lane.result;
}

std::uint32_t match_any(std::uint32_t mask, std::uint64_t value, Location where) {
  const sanitizer::Mute mute;
  Lane lane{value, 0};
  gather("match.any", mask, &lane, match_each, where);
  return lane.result;
}

std::uint32_t match_all(std::uint32_t mask, std::uint64_t value, Location where) {
  const sanitizer::Mute mute;
  Lane lane{value, 0};
  gather("match.all", mask, &lane, match_same, where);
  return lane.result;
}

std::uint32_t active_mask() {
  const Thread& self = this_thread();
  const Block& block = self.home();
  const unsigned first = self.index() - self.index() % 32;
  const auto ended = static_cast<std::uint32_t>(block.ended.words[first / 64] >> (first % 64));
  const unsigned lanes = std::min(block.thread_count - first, 32u);
  return (lanes == 32 ? ~0u : (1u << lanes) - 1) & ~ended;
}

std::uint32_t lane_id() { return this_thread().index() % 32; }

}  // namespace model
}  // namespace rungs::emulator
