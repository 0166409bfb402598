// A rendezvous that goes wrong: every rank ends with an error that says why, and strangers keep
// nobody from joining.

#include "bootstrap/id_content.hpp"
#include "bootstrap/member.hpp"
#include "bootstrap/rendezvous.hpp"
#include "bootstrap/socket.hpp"
#include "bootstrap_support.hpp"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace rungs::bootstrap::test {
namespace {

class BootstrapRendezvous : public BootstrapTest {};

RootOptions at_loopback(int ranks, double timeout_seconds = 60) {
  RootOptions options;
  options.ranks = ranks;
  options.interface_or_address = "127.0.0.1";
  options.timeout_seconds = timeout_seconds;
  return options;
}

detail::Address root_of(const Root& root) { return detail::decode(root.id()).root; }

// A connection to somewhere that does nothing.
Descriptor connect_to(const detail::Address& address) {
  Descriptor fd = detail::start_connect(address);
  if (detail::wait_for(fd.get(), POLLOUT, Deadline::after(5s)) != detail::Wait::kReady)
    throw std::runtime_error("no connection");
  return fd;
}

void say(const Descriptor& fd, std::string_view text) {
  (void)detail::write_some(fd.get(), std::as_bytes(std::span(text.data(), text.size())));
}

void expect_all_join(const Root& root, int ranks) {
  const auto outcomes = run_threads(ranks, [&](int rank) {
    Group group(root.id(), rank, ranks);
    group.barrier();
  });
  EXPECT_EQ(failures(outcomes), "");
}

TEST_F(BootstrapRendezvous, BadArguments) {
  EXPECT_TRUE(has(error_of([] { Root root(at_loopback(0)); }), "ranks must be at least 1, got 0"));
  Root root(at_loopback(1));
  EXPECT_TRUE(has(error_of([&] { Group group(root.id(), 3, 2); }), "rank 3 is not one of 2"));
  EXPECT_TRUE(has(error_of([&] { Group group(root.id(), -1, 2); }), "rank -1"));
  EXPECT_TRUE(has(error_of([] {
                    RootOptions options;
                    options.interface_or_address = "wlan77";
                    Root broken(options);
                  }),
                  "there are: lo (127.0.0.1)"));
}

TEST_F(BootstrapRendezvous, WrongNumberOfRanks) {
  Root root(at_loopback(3));
  const auto outcomes = run_threads(2, [&](int rank) {
    const int size = rank == 1 ? 4 : 3;
    if (rank == 1) std::this_thread::sleep_for(50ms);
    const std::string error = error_of([&] { Group group(root.id(), rank, size); });
    require_has(error, {"InvalidArgument", "rank 1 (127.0.0.1:", "as one of 4 ranks",
                        "the root waits for 3", root_of(root).to_string()});
  });
  EXPECT_EQ(failures(outcomes), "");
  EXPECT_TRUE(has(error_of([&] { root.wait(); }), "InvalidArgument"));
}

// One of the two has the place; the other is told so, and the group comes together all the same.
TEST_F(BootstrapRendezvous, TheSameRankTwice) {
  Root root(at_loopback(3));
  std::atomic<int> refused{0};
  const auto outcomes = run_threads(4, [&](int thread) {
    const int rank = thread == 3 ? 1 : thread;
    if (rank != 1)
      wait_until([&] { return refused > 0; }, Deadline::after(20s), [] { return "?"; });
    const std::string error = error_of([&] {
      Group group(root.id(), rank, 3);
      group.barrier();
    });
    if (error == "nothing") return;
    ++refused;
    require_has(error, {"InvalidArgument", "rank 1 is already there (from 127.0.0.1:",
                        "another one came from 127.0.0.1:"});
  });
  EXPECT_EQ(failures(outcomes), "");
  EXPECT_EQ(refused, 1);
  root.wait();
}

TEST_F(BootstrapRendezvous, MissingRanksAreNamedEverywhere) {
  Root root(at_loopback(5, 0.3));
  const std::string where = root_of(root).to_string();
  const auto outcomes = run_threads(3, [&](int rank) {
    const std::string error = error_of([&] { Group group(root.id(), rank, 5); });
    require_has(error, {"Timeout", "missing: ranks 3 and 4 of 5", where, "waited "});
  });
  EXPECT_EQ(failures(outcomes), "");
  const std::string at_root = error_of([&] { root.wait(); });
  EXPECT_TRUE(has(at_root, "Timeout") && has(at_root, "missing: ranks 3 and 4 of 5")) << at_root;
  EXPECT_TRUE(logged("error", "missing: ranks 3 and 4 of 5")) << log_text();
  // Who comes too late hears why at once.
  const std::string late = error_of([&] { Group group(root.id(), 3, 5); });
  EXPECT_TRUE(has(late, "Timeout") && has(late, "missing: ranks 3 and 4 of 5")) << late;
}

// The least patient rank decides: without it the group cannot be.
TEST_F(BootstrapRendezvous, ARanksOwnDeadline) {
  Root root(at_loopback(3));
  const auto outcomes = run_threads(2, [&](int rank) {
    GroupOptions options;
    options.timeout_seconds = rank == 1 ? 0.3 : 60;
    const std::string error = error_of([&] { Group group(root.id(), rank, 3, options); });
    require_has(error, {"Timeout", "missing: rank 2 of 3", "rank 1 waits no longer"});
  });
  EXPECT_EQ(failures(outcomes), "");
}

TEST_F(BootstrapRendezvous, PortInUse) {
  Root root(at_loopback(1));
  RootOptions second = at_loopback(1);
  second.port = root_of(root).port();
  const std::string error = error_of([&] { Root other(second); });
  for (const std::string& part :
       {std::string("System"), concat("port ", second.port, " of 127.0.0.1 is in use"),
        std::string("RUNGS_BOOTSTRAP_PORT"), std::string("ss -ltnp")}) {
    EXPECT_TRUE(has(error, part)) << part << " in " << error;
  }
}

TEST_F(BootstrapRendezvous, AStrangerWithAWrongSecret) {
  RootOptions options = at_loopback(2);
  options.secret = "right";
  Root root(options);
  detail::IdContent forged = detail::decode(root.id());
  forged.key = detail::key_of("wrong");
  const std::string error = error_of([&] { Group group(detail::encode(forged), 0, 2); });
  EXPECT_TRUE(has(error, "System") && has(error, "the secrets differ")) << error;
  EXPECT_TRUE(has(error, root_of(root).to_string())) << error;
  expect_all_join(root, 2);
  EXPECT_TRUE(logged("warn", "wrong secret")) << log_text();
}

TEST_F(BootstrapRendezvous, NoiseKeepsNobodyFromJoining) {
  Root root(at_loopback(4));
  const detail::Address address = root_of(root);
  std::vector<Descriptor> open;
  for (int i = 0; i < 20; ++i) {
    open.push_back(connect_to(address));  // half open: says nothing, ever
    (void)connect_to(address);            // a port scanner
    open.push_back(connect_to(address));
    say(open.back(), "GET / HTTP/1.0\r\n\r\n");
    open.push_back(connect_to(address));
    say(open.back(), "RUNGBST1");  // begins well and stops
  }
  expect_all_join(root, 4);
  EXPECT_TRUE(logged("warn", "does not speak this protocol (its first bytes are 474554"))
      << log_text();
  EXPECT_TRUE(logged("warn", "closed the connection while this end waited for its greeting"))
      << log_text();
}

// The ranks' own sockets are as open to strangers as the root's.
TEST_F(BootstrapRendezvous, NoiseAtTheRanks) {
  Root root(at_loopback(3));
  const detail::IdContent content = detail::decode(root.id());
  const auto outcomes = run_threads(3, [&](int rank) {
    detail::JoinRequest request;
    request.roots = {content.root};
    request.key = content.key;
    request.rank = rank;
    request.size = 3;
    detail::Member member(detail::join(request), rank, 3, "");
    member.meet(Deadline::standard());
    const Descriptor noise = connect_to(member.record(rank).address);
    say(noise, "\x16\x03\x01 hello hello");
    const Descriptor stranger = connect_to(member.record(rank).address);
    detail::Handshake wrong =
        detail::Handshake::client(detail::key_of("?"), detail::Purpose::kControl, 1, rank);
    while (true) {
      const auto progress = wrong.advance(stranger.get());
      if (progress == detail::Handshake::Progress::kFailed) break;
      require(progress != detail::Handshake::Progress::kDone, "a stranger is turned away");
      (void)detail::wait_for(stranger.get(), POLLIN, Deadline::after(5s));
    }
    detail::dissemination_barrier(
        member, member.begin(detail::FrameType::kBarrier, 0, Deadline::standard()));
    require(member.mailbox().news() == nullptr, "no loss");
    // Counted as made, so that leaving is no loss to the others.
    member.end({detail::FrameType::kBarrier, 2, 0, Deadline::standard()});
  });
  EXPECT_EQ(failures(outcomes), "");
  EXPECT_TRUE(logged("warn", "wrong secret")) << log_text();
}

TEST_F(BootstrapRendezvous, NobodyListensThere) {
  UniqueId id;
  {
    Root root(at_loopback(2));
    id = root.id();
  }
  const std::string where = detail::decode(id).root.to_string();
  const std::string error = error_of([&] { Group group(id, 0, 2); });
  EXPECT_TRUE(has(error, "System") && has(error, where) && has(error, "refused")) << error;
}

// Something listens and never answers.
TEST_F(BootstrapRendezvous, ASilentRoot) {
  detail::IdContent content;
  content.root = *detail::Address::from_text("127.0.0.1", 0);
  const Descriptor listener = detail::listen_on(content.root, "test");
  content.root = detail::Address::of_socket(listener.get());
  GroupOptions options;
  options.timeout_seconds = 0.2;
  const std::string error = error_of([&] { Group group(detail::encode(content), 0, 1, options); });
  EXPECT_TRUE(has(error, "Timeout") && has(error, "the answer to its greeting")) << error;
}

TEST_F(BootstrapRendezvous, TheRootEndsWhileRanksWait) {
  auto root = std::make_unique<Root>(at_loopback(2));
  const UniqueId id = root->id();
  std::string error;
  std::thread rank([&] { error = error_of([&] { Group group(id, 0, 2); }); });
  std::this_thread::sleep_for(100ms);
  root.reset();
  rank.join();
  // Whether it had registered by then or not, it hears of it.
  const bool told = has(error, "the root was stopped") || has(error, "refused") ||
                    has(error, "closed the connection");
  EXPECT_TRUE(told) << error;
}

TEST_F(BootstrapRendezvous, ARankKilledWhileItWaits) {
  SharedId shared;
  const auto outcomes = run_processes(3, [&](int rank) {
    if (rank == 2) {
      // Registers, and is killed before the third comes.
      std::thread waits([&] { Group group(shared.wait(), 2, 3); });
      std::this_thread::sleep_for(300ms);
      ::kill(::getpid(), SIGKILL);
    }
    std::optional<Root> root;
    if (rank == 0) {
      root.emplace(at_loopback(3));
      shared.publish(root->id());
    } else {
      wait_until([&] { return shared.counter() > 0; }, Deadline::after(30s),
                 [] { return "rank 0's error"; });
    }
    const std::string error = error_of([&] { Group group(shared.wait(), rank, 3); });
    require_has(error, {"PeerLost", "rank 2 (127.0.0.1:", "died while it waited",
                        "missing: ranks 1 and 2 of 3"});
    if (rank == 0) {
      ++shared.counter();
      wait_until([&] { return shared.counter() > 1; }, Deadline::after(30s),
                 [] { return "rank 1's error"; });
    } else {
      ++shared.counter();
    }
  });
  EXPECT_EQ(failures(outcomes), "rank 2: killed by signal 9 (Killed)\n");
}

// Rank 0's process, with the root in it, dies.
TEST_F(BootstrapRendezvous, TheRootIsKilled) {
  SharedId shared;
  const auto outcomes = run_processes(2, [&](int rank) {
    if (rank == 0) {
      Root root(at_loopback(2));
      shared.publish(root.id());
      std::this_thread::sleep_for(300ms);
      ::kill(::getpid(), SIGKILL);
    }
    require_has(error_of([&] { Group group(shared.wait(), rank, 2); }),
                {"PeerLost", "ended while this rank waited for the others", "did rank 0 die?"});
  });
  EXPECT_EQ(failures(outcomes), "rank 0: killed by signal 9 (Killed)\n");
}

// A forked child has copies of the descriptors but is no member: when it ends nothing happens.
TEST_F(BootstrapRendezvous, AForkedChildIsNoMember) {
  const auto outcomes = run_group_processes(2, {}, [](Group& group) {
    group.barrier();
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    require(child > 0, "a child");
    int status = 0;
    while (::waitpid(child, &status, 0) < 0) continue;
    group.barrier();
    require(!group.lost(), "nobody lost");
  });
  EXPECT_EQ(failures(outcomes), "");
}

}  // namespace
}  // namespace rungs::bootstrap::test
