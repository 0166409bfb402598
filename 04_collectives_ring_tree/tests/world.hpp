#pragma once
/// @file world.hpp
/// Ranks for tests: each has a group, a device, a stream, a communicator and memory for operands.

#include <rungs/bootstrap/group.hpp>
#include <rungs/collectives/communicator.hpp>
#include <rungs/gpu/buffer.hpp>
#include <rungs/gpu/stream.hpp>
#include <rungs/testing/gpu_test.hpp>
#include <rungs/testing/ranks.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace rungs::collectives {

struct WorldOptions {
  std::string algorithm = "ring";
  KernelTable table = kernel_table();  ///< stages above bring theirs
  ProtocolId protocol = ProtocolId::kSimple;
  std::shared_ptr<const Tuner> tuner;  ///< empty: always algorithm and protocol
  int channels = 2;                    ///< all of them used, however small the data
  std::size_t slot_bytes = 1024;
  std::vector<std::vector<int>> rings;
  double timeout_seconds = 20;
  bool share_device = false;  ///< all ranks on device 0
  std::size_t area_bytes = std::size_t{1} << 20;
};

inline CommunicatorOptions communicator_options(const WorldOptions& options) {
  CommunicatorOptions result;
  result.channels = options.channels;
  result.rings = options.rings;
  result.timeout_seconds = options.timeout_seconds;
  result.slot_bytes = options.slot_bytes;
  return result;
}

inline std::shared_ptr<const Tuner> tuner_of(const WorldOptions& options) {
  if (options.tuner) return options.tuner;
  return fixed_tuner(options.algorithm, options.protocol, options.channels);
}

inline gpu::Device device_of(int rank, const WorldOptions& options) {
  return gpu::Device::open(options.share_device ? 0 : rank % gpu::Device::count());
}

/// One rank. All memory is allocated before the first collective: ranks may share a GPU.
struct Rank {
  Rank(bootstrap::Group& its_group, const WorldOptions& options)
      : group(its_group),
        device(device_of(its_group.rank(), options)),
        stream(device),
        send(device, options.area_bytes),
        recv(device, options.area_bytes),
        communicator(group, device, options.table, tuner_of(options),
                     communicator_options(options)) {}
  /// A mismatch is noted, so that all ranks go on in step, and reported by finish().
  void note(const std::string& problem) {
    if (!problem.empty()) problems += concat("\n  ", problem);
  }
  void finish() const {
    if (!problems.empty()) RUNGS_THROW(kInternal, problems);
  }

  bootstrap::Group& group;
  gpu::Device device;
  gpu::Stream stream;
  gpu::Buffer<std::byte> send;
  gpu::Buffer<std::byte> recv;
  Communicator communicator;
  std::string problems;
};

using RankBody = std::function<void(Rank&)>;

inline void be_rank(const bootstrap::UniqueId& id, int rank, int ranks, const WorldOptions& options,
                    const RankBody& body) {
  bootstrap::Group group(id, rank, ranks);
  Rank me(group, options);
  body(me);
  me.finish();
}

inline std::vector<testing::RankOutcome> outcomes_of_threads(int ranks, const WorldOptions& options,
                                                             const RankBody& body) {
  bootstrap::RootOptions root_options;
  root_options.ranks = ranks;
  root_options.interface_or_address = "127.0.0.1";
  const bootstrap::Root root(root_options);
  return testing::run_threads(ranks,
                              [&](int rank) { be_rank(root.id(), rank, ranks, options, body); });
}

/// Empty when every rank ended well.
inline std::string in_threads(int ranks, const WorldOptions& options, const RankBody& body) {
  return testing::failures(outcomes_of_threads(ranks, options, body));
}

/// A TCP port that nobody listens at.
inline int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  const bool bound = ::bind(socket, reinterpret_cast<const sockaddr*>(&address), length) == 0 &&
                     ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  ::close(socket);
  RUNGS_REQUIRE(bound, "no free port");
  return ntohs(address.sin_port);
}

/// Rank 0 runs the rendezvous: the parent must not have threads where ThreadSanitizer runs.
inline std::vector<testing::RankOutcome> outcomes_of_processes(int ranks,
                                                               const WorldOptions& options,
                                                               const RankBody& body) {
  const std::string port = std::to_string(free_port());
  return testing::run_processes(ranks, [&](int /*rank*/) {
    ::setenv("MASTER_ADDR", "127.0.0.1", 1);
    ::setenv("MASTER_PORT", port.c_str(), 1);
    bootstrap::Group group = bootstrap::Group::from_environment();
    Rank me(group, options);
    body(me);
    me.finish();
  });
}

inline std::string in_processes(int ranks, const WorldOptions& options, const RankBody& body) {
  return testing::failures(outcomes_of_processes(ranks, options, body));
}

/// How many ranks this machine can run together. On one GPU two streams are sure not to share a
/// hardware queue, in which the one's kernel would wait behind the other's.
inline int most_ranks() {
  return RUNGS_GPU_CUDA != 0 ? std::max(2, gpu::Device::count()) : kMaxRanks;
}

}  // namespace rungs::collectives

/// First line of a test with several ranks.
#define RUNGS_NEEDS_RANKS(ranks)                                                                   \
  RUNGS_NEEDS_DEVICE();                                                                            \
  if ((ranks) > ::rungs::collectives::most_ranks()) {                                              \
    return ::rungs::testing::skip(                                                                 \
        ::rungs::testing::Lack::kSecondGpu,                                                        \
        ::rungs::concat(ranks, " ranks need more than ", ::rungs::gpu::Device::count(), " GPUs")); \
  }
