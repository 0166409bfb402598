// Two blocks that send and receive over one LL link: the protocol without an algorithm.

#include "one_way.hpp"

#include <rungs/collectives/reduce_device.hpp>
#include <rungs/gpu/launch.hpp>
#include <rungs/protocols/ll_device.hpp>

namespace rungs::protocols {
namespace {

using collectives::KernelArgs;
using Link = Ll::Primitives<float, collectives::Sum>;

constexpr unsigned kThreads = 32;

RUNGS_KERNEL(kThreads, 1)
send_messages_kernel(KernelArgs args, unsigned messages) {
  Link link(args, 0, -1, 1);
  for (unsigned i = 0; i < messages; ++i)
    link.send(static_cast<const float*>(args.send) + i * args.count, args.count);
}

RUNGS_KERNEL(kThreads, 1)
receive_messages_kernel(KernelArgs args, unsigned messages) {
  Link link(args, 0, 0, -1);
  for (unsigned i = 0; i < messages; ++i)
    link.recv(static_cast<float*>(args.recv) + i * args.count, args.count);
}

}  // namespace

void enqueue_sends(const KernelArgs& args, unsigned messages, gpu::StreamHandle stream) {
  gpu::launch("send messages", {.grid = {1}, .block = {kThreads}}, stream, send_messages_kernel,
              args, messages);
}

void enqueue_receives(const KernelArgs& args, unsigned messages, gpu::StreamHandle stream) {
  gpu::launch("receive messages", {.grid = {1}, .block = {kThreads}}, stream,
              receive_messages_kernel, args, messages);
}

}  // namespace rungs::protocols
