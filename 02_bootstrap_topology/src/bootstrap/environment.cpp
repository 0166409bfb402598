// Group::from_environment: ranks that a launcher started know an address, a port and perhaps a
// secret.

#include "bootstrap/id_content.hpp"
#include "bootstrap/rendezvous.hpp"
#include "bootstrap/root_server.hpp"

#include <rungs/bootstrap/group.hpp>
#include <rungs/core/env.hpp>
#include <rungs/core/log.hpp>

#include <algorithm>
#include <chrono>
#include <memory>

namespace rungs::bootstrap {
namespace {

std::uint16_t bootstrap_port(const RankEnvironment& environment) {
  const auto chosen = env::integer("RUNGS_BOOTSTRAP_PORT", 0, 1, 65'535);
  if (env::text("RUNGS_BOOTSTRAP_PORT")) return static_cast<std::uint16_t>(chosen);
  const bool torch_holds_it = env::string("TORCHELASTIC_USE_AGENT_STORE", "") == "True";
  const int port = environment.master_port + (torch_holds_it ? 1 : 0);
  RUNGS_REQUIRE(port <= 65'535, "MASTER_PORT is ", environment.master_port,
                " and held by torchrun, and there is no port above it: set RUNGS_BOOTSTRAP_PORT");
  return static_cast<std::uint16_t>(port);
}

// Without a secret the job's id at least keeps jobs apart that were given the same port.
detail::Key key_from_environment(int rank) {
  if (const auto secret = env::text("RUNGS_SECRET")) return detail::key_of(*secret);
  const std::string run = env::string("TORCHELASTIC_RUN_ID", "");
  if (rank == 0) {
    log::info("RUNGS_SECRET is not set: whoever reaches the rendezvous",
              run.empty() ? "" : " and knows TORCHELASTIC_RUN_ID", " may join this job");
  }
  return detail::key_of(concat("no secret, run ", run));
}

}  // namespace

Group Group::from_environment(const GroupOptions& options) {
  const RankEnvironment environment = RankEnvironment::read();
  const bool one_host = environment.local_size == environment.world_size;
  const bool alone = environment.world_size == 1;
  detail::JoinRequest request;
  request.rank = environment.rank;
  request.size = environment.world_size;
  request.root_is_up = false;
  request.key = key_from_environment(environment.rank);
  request.deadline = Deadline::after(std::chrono::duration<double>(options.timeout_seconds));
  request.roots = detail::resolve(alone ? "127.0.0.1" : environment.master_address,
                                  alone ? std::uint16_t{0} : bootstrap_port(environment),
                                  options.timeout_seconds);
  std::unique_ptr<detail::RootServer> root;
  if (environment.rank == 0) {
    detail::RootServer::Setup setup;
    // On several hosts the name of this one may lead to loopback here and to a real address
    // elsewhere (Debian puts the host name at 127.0.1.1), so the root listens everywhere.
    const detail::Address& named = request.roots.front();
    setup.listen = one_host ? named : detail::Address::any(named.family(), named.port());
    if (!one_host) setup.reachable = detail::choose_address("", named.family());
    setup.key = request.key;
    setup.ranks = environment.world_size;
    setup.timeout_seconds = options.timeout_seconds;
    root = std::make_unique<detail::RootServer>(setup);
    request.roots = {root->address()};
    request.root_is_up = true;
  }
  // For the same reason the way to the root does not show under which address others reach this
  // rank.
  const bool chosen = env::text("RUNGS_SOCKET_IFNAME").has_value();
  if (!one_host || chosen)
    request.listen_at = detail::choose_address("", request.roots.front().family());
  return open(request, options);
}

}  // namespace rungs::bootstrap
