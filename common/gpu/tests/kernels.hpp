#pragma once
/// @file kernels.hpp
/// The kernels of the gpu tests, each behind a plain function that launches it.

#include <rungs/gpu/launch.hpp>

#include <cstddef>
#include <cstdint>

namespace rungs::gpu::test {

/// A parameter larger than a register, passed by value.
struct Affine {
  std::uint32_t factor;
  std::uint32_t summand;
  std::uint64_t unused[5];
};

/// Does nothing.
void launch_empty(StreamHandle stream);
/// data[i] = data[i] * factor + summand, modulo 2^32, in one block.
void launch_affine(StreamHandle stream, std::uint32_t* data, std::size_t count, Affine affine);
/// to[i] = from[i] + summand.
void launch_add(StreamHandle stream, std::uint32_t* to, const std::uint32_t* from,
                std::size_t count, std::uint32_t summand);
/// Waits until *flag (system scope) is `value`, or 20 s; then writes 1, or 0 if it gave up, to
/// *seen.
void launch_wait(StreamHandle stream, const std::uint32_t* flag, std::uint32_t value,
                 std::uint32_t* seen);
/// Plays `rounds` of ping-pong with another kernel: waits for mine == round, then sets theirs =
/// round + 1 (`first` begins). Writes the rounds that it reached to *reached; gives up after 20 s.
void launch_ping_pong(StreamHandle stream, std::uint32_t* mine, std::uint32_t* theirs,
                      std::uint32_t rounds, bool first, std::uint32_t* reached);
/// *counter += 1 from each of `threads` threads.
void launch_count(StreamHandle stream, std::uint32_t* counter, unsigned threads);
/// Reverses `count` (at most 1024) values through dynamic shared memory of `shared_bytes`.
void launch_reverse(StreamHandle stream, std::uint32_t* data, unsigned count,
                    unsigned shared_bytes);
/// Waits for a barrier on which nobody arrives. The emulator reports it; a GPU would hang.
void launch_deadlock(StreamHandle stream);
/// Does nothing, in any shape.
void launch_shape(StreamHandle stream, const LaunchConfig& config);

}  // namespace rungs::gpu::test
