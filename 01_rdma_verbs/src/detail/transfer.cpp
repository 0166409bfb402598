#include "detail/transfer.hpp"

#include <string_view>

namespace rungs::verbs::detail {
namespace {

constexpr std::string_view kNoMessages = "at least one message of at least one byte is needed";
constexpr std::string_view kShortQueue =
    "a queue shorter than 64 requests holds no two lists of 32: one would be written while nothing "
    "is under way";

void check_range(const char* what, const MemoryRegion& region, std::uint32_t messages,
                 std::uint32_t message_bytes) {
  const std::uint64_t needed = std::uint64_t{messages} * message_bytes;
  RUNGS_REQUIRE(region.size_bytes() >= needed, what, " has ", region.size_bytes(), " bytes, ",
                messages, " messages of ", message_bytes, " need ", needed);
}

}  // namespace

void check(const WriteArgs& args) {
  RUNGS_REQUIRE(args.queue_pair != nullptr, "verbs_write: queue_pair is null");
  RUNGS_REQUIRE(args.send_cq != nullptr, "verbs_write: send_cq is null");
  RUNGS_REQUIRE(args.source != nullptr, "verbs_write: source is null");
  RUNGS_REQUIRE(args.messages > 0 && args.message_bytes > 0, "verbs_write: ", args.messages,
                " messages of ", args.message_bytes, " bytes: ", kNoMessages);
  check_range("verbs_write: source", *args.source, args.messages, args.message_bytes);
}

void check(const SendArgs& args) {
  RUNGS_REQUIRE(args.sender != nullptr && args.receiver != nullptr,
                "verbs_send: sender or receiver is null");
  RUNGS_REQUIRE(args.send_cq != nullptr && args.recv_cq != nullptr,
                "verbs_send: send_cq or recv_cq is null");
  RUNGS_REQUIRE(args.source != nullptr && args.destination != nullptr,
                "verbs_send: source or destination is null");
  RUNGS_REQUIRE(args.messages > 0 && args.message_bytes > 0, "verbs_send: ", args.messages,
                " messages of ", args.message_bytes, " bytes: ", kNoMessages);
  check_range("verbs_send: source", *args.source, args.messages, args.message_bytes);
  check_range("verbs_send: destination", *args.destination, args.messages, args.message_bytes);
}

ladder::Support supports_writes(const WriteArgs& args, const ladder::Machine&) {
  return {args.messages > 0 && args.message_bytes > 0, kNoMessages};
}

ladder::Support supports_write_lists(const WriteArgs& args, const ladder::Machine& machine) {
  const ladder::Support any = supports_writes(args, machine);
  return any.ok ? ladder::Support{args.send_depth >= 2 * kListLength, kShortQueue} : any;
}

ladder::Support supports_sends(const SendArgs& args, const ladder::Machine&) {
  return {args.messages > 0 && args.message_bytes > 0, kNoMessages};
}

ladder::Support supports_send_lists(const SendArgs& args, const ladder::Machine& machine) {
  const ladder::Support any = supports_sends(args, machine);
  const bool long_enough = args.send_depth >= 2 * kListLength && args.recv_depth >= 2 * kListLength;
  return any.ok ? ladder::Support{long_enough, kShortQueue} : any;
}

}  // namespace rungs::verbs::detail
