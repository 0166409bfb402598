#pragma once
/// @file one_way.hpp
/// One LL link between two hand-made ranks on one device. A communicator starts a link at step 0
/// and only ever goes on; here a test sets steps and lines as it likes.

#include <rungs/collectives/kernel_args.hpp>
#include <rungs/gpu/buffer.hpp>
#include <rungs/gpu/stream.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rungs::protocols {

/// Enqueues a block that sends (receives) `messages` messages of args.count floats each.
void enqueue_sends(const collectives::KernelArgs& args, unsigned messages,
                   gpu::StreamHandle stream);
void enqueue_receives(const collectives::KernelArgs& args, unsigned messages,
                      gpu::StreamHandle stream);

class OneWay {
 public:
  static constexpr std::size_t kLines = 64;         ///< of a slot
  static constexpr std::size_t kMost = 2 * kLines;  ///< floats that a slot carries
  struct Line {
    std::uint32_t data0, flag0, data1, flag1;
  };
  /// How a receiver without a sender ended.
  struct Alone {
    bool gave_up;
    std::size_t taken;  ///< elements of its result that were written
    collectives::Awaited awaited;
    std::uint64_t expected;  ///< of the fault record
  };

  OneWay();
  /// Both sides go on at this step; what lies in the slots stays.
  void go_to(std::uint64_t step);
  [[nodiscard]] std::uint64_t step() const { return step_; }
  /// Fills the slot of a step as a sender would that was stopped in the middle of everything.
  void set_lines(std::uint64_t step, const std::vector<Line>& lines);
  /// Sends messages of `count` floats from one block to the other. Empty, or what came out wrong.
  std::string move(std::size_t count, unsigned messages);
  /// Receives one message that nobody sends; both sides stay where they are.
  Alone receive_alone(std::size_t count);

 private:
  struct Control {
    std::uint32_t abort;
    gpu::Fault fault;
  };
  struct Side {
    explicit Side(const gpu::Device& device);
    gpu::Stream stream;
    gpu::Buffer<collectives::LinkSide> links;
    gpu::Buffer<collectives::DeviceCommunicator> communicator;
    gpu::Buffer<std::uint32_t> claim;
    gpu::Buffer<Control> control;
  };
  collectives::KernelArgs prepare(Side& side, int rank, std::size_t count, double seconds);

  gpu::Device device_;
  gpu::Buffer<std::byte> slots_;
  gpu::Buffer<std::uint64_t> words_;  // head, the sender's step, the receiver's step
  gpu::Buffer<float> from_, to_;
  Side sender_, receiver_;
  std::uint64_t step_ = 0;
  float next_value_ = 1;
};

}  // namespace rungs::protocols
