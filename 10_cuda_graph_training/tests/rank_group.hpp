#pragma once
// Several ranks of this stage's tests: threads or processes with a group, on so many pretend nodes.

#include <rungs/bootstrap/group.hpp>
#include <rungs/testing/ranks.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace rungs::training {

using GroupBody = std::function<void(bootstrap::Group&)>;

/// The node of a rank: equally many ranks on each, in order.
inline int node_of(int rank, int ranks, int nodes) { return rank * nodes / ranks; }

inline bootstrap::GroupOptions on_node(int node, int nodes) {
  bootstrap::GroupOptions options;
  if (nodes > 1) options.host_id = "node " + std::to_string(node);
  return options;
}

/// Empty when every rank ended well. @param node_of_rank which pretend node each rank is on
inline std::string in_threads(const std::vector<int>& node_of_rank, const GroupBody& body) {
  const auto ranks = static_cast<int>(node_of_rank.size());
  bootstrap::RootOptions options;
  options.ranks = ranks;
  options.interface_or_address = "127.0.0.1";
  const bootstrap::Root root(options);
  return testing::failures(testing::run_threads(ranks, [&](int rank) {
    bootstrap::Group group(root.id(), rank, ranks,
                           on_node(node_of_rank[static_cast<std::size_t>(rank)], 2));
    body(group);
  }));
}
inline std::string in_threads(int ranks, int nodes, const GroupBody& body) {
  std::vector<int> placed;
  for (int rank = 0; rank < ranks; ++rank) placed.push_back(node_of(rank, ranks, nodes));
  return in_threads(placed, body);
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
  if (!bound) return 0;
  return ntohs(address.sin_port);
}

/// Each rank a process: EXPECT in them is not seen, so bodies throw.
inline std::vector<testing::RankOutcome> in_processes(int ranks, int nodes, const GroupBody& body) {
  const std::string port = std::to_string(free_port());
  return testing::run_processes(ranks, [&](int rank) {
    ::setenv("MASTER_ADDR", "127.0.0.1", 1);
    ::setenv("MASTER_PORT", port.c_str(), 1);
    bootstrap::Group group =
        bootstrap::Group::from_environment(on_node(node_of(rank, ranks, nodes), nodes));
    body(group);
  });
}

}  // namespace rungs::training
