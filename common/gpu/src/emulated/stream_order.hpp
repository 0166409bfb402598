#pragma once
/// @file stream_order.hpp
/// Who is ordered behind whom: vector clocks of streams, kept when work is submitted, so that what
/// they say does not depend on how far the work has come. For stream-ordered memory.

#include <rungs/gpu/launch.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>

namespace rungs::gpu::detail {

class StreamState;

/// Positions in other streams, by their number, that come before.
using Clock = std::map<std::uint64_t, std::uint64_t>;

/// What an event recorded on the stream now stands for.
Clock order_of(StreamState& stream);
/// What is submitted to the stream from now on comes after `before`.
void order_behind(StreamState& stream, const Clock& before);
/// What any thread submits from now on comes after `before`: the host has waited.
void order_host_behind(const Clock& before);

void note_allocation(StreamState& stream, const void* memory, std::size_t size_bytes);
/// [memory, memory + size_bytes) is given out again: what was released there is forgotten.
void forget_released(const void* memory, std::size_t size_bytes);
/// Returns the allocation's size. @throws Error kInvalidArgument unless all uses of the memory come
/// before
std::size_t note_release(StreamState& stream, const void* memory);
/// `what` uses [begin, begin + size_bytes).
/// @throws Error kInvalidArgument if stream-ordered memory in it is not allocated before, or is
///         released
void note_use(StreamState& stream, const void* begin, std::size_t size_bytes,
              std::string_view what);
/// note_use() of all that looks like a pointer among a kernel's parameters.
void note_uses(StreamState& stream, const KernelArgs& args, std::string_view kernel);

}  // namespace rungs::gpu::detail
