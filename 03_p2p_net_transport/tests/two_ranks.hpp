#pragma once
/// @file two_ranks.hpp
/// Ranks with a group and a context each, as threads or as processes, and bytes that tell where
/// they belong.

#include <rungs/bootstrap/group.hpp>
#include <rungs/core/error.hpp>
#include <rungs/gpu/device.hpp>
#include <rungs/testing/ranks.hpp>
#include <rungs/transport/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace rungs::transport {

enum class Ranks { kThreads, kProcesses };

inline const Kind kAllKinds[] = {Kind::kSharedMemory, Kind::kSocket, Kind::kVerbs, Kind::kGpuPeer};

inline LinkOptions link_options(Kind kind, Schedule schedule, std::size_t slot_bytes) {
  LinkOptions options;
  options.kind = kind;
  options.schedule = schedule;
  options.slot_bytes = slot_bytes;
  return options;
}

/// What a rank's body is given.
struct Rank {
  bootstrap::Group& group;
  Context& context;
  const gpu::Device& device;
  int rank;
  int peer;  ///< of two ranks: the other
};

/// Runs `body` as `ranks` ranks. Each opens a device of its own.
std::vector<testing::RankOutcome> run_ranks(Ranks as, int ranks,
                                            const std::function<void(Rank&)>& body);
/// The same with two; empty when both ended well.
std::string run_two(Ranks as, const std::function<void(Rank&)>& body);

/// Byte i of message `seed`.
constexpr std::byte expected_byte(std::uint64_t seed, std::size_t i) {
  const std::uint64_t mixed = (seed * 0x9e3779b97f4a7c15ull + i / 8) * 0xbf58476d1ce4e5b9ull;
  return static_cast<std::byte>(mixed >> (8 * (i % 8)));
}
std::vector<std::byte> message(std::uint64_t seed, std::size_t size_bytes);
/// Memory to receive into: every byte wrong.
std::vector<std::byte> poisoned(std::uint64_t seed, std::size_t size_bytes);
/// @throws Error kInternal naming the first byte of `got` that is not message(seed)'s
void expect_message(std::uint64_t seed, std::span<const std::byte> got);

/// @throws Error kInternal unless `condition`: EXPECT in a forked rank is not seen
void expect(bool condition, const std::string& what);
/// Expects an Error of that code whose text has every one of `parts`. @return the text
std::string expect_error(ErrorCode code, const std::vector<std::string>& parts,
                         const std::function<void()>& body);

}  // namespace rungs::transport
