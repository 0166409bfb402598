#pragma once
/// @file group.hpp
/// Ranks that found each other over TCP: all-gather, barrier, messages, file descriptors, and the
/// news that one of them died.
///
///     bootstrap::Root root({.ranks = 4});             // in one process
///     bootstrap::Group group(root.id(), rank, 4);     // in each of four threads or processes
///     bootstrap::Group group = bootstrap::Group::from_environment();   // under launch or torchrun

#include <rungs/bootstrap/unique_id.hpp>
#include <rungs/core/deadline.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace rungs::bootstrap {

namespace detail {
struct JoinRequest;
}  // namespace detail

/// How the rendezvous listens.
struct RootOptions {
  int ranks = 1;
  /// "eth0", "10.0.0.7", "::1"; empty: RUNGS_SOCKET_IFNAME, else the first interface that is
  /// neither docker's nor loopback, else loopback.
  std::string interface_or_address = {};
  std::uint16_t port = 0;       ///< 0: any free one
  std::string secret = {};      ///< empty: 32 random bytes
  double timeout_seconds = 60;  ///< until all ranks are there; × RUNGS_TIMEOUT_SCALE
};

/// The rendezvous: a thread that waits for all ranks, tells each its neighbours and ends.
class Root {
 public:
  /// @throws Error kInvalidArgument for ranks < 1 or an unknown interface (with those there are);
  ///         kSystem when the port is in use
  explicit Root(const RootOptions& options);
  ~Root();
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;
  [[nodiscard]] const UniqueId& id() const noexcept;
  /// Waits until the rendezvous has ended. @throws Error what ended it: kTimeout naming the missing
  /// ranks, kPeerLost for a rank that died while it waited, kInvalidArgument for a rank that was
  /// started with another size; kTimeout if `deadline` passes first
  void wait(const Deadline& deadline = Deadline::standard());

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// How ranks exchange what each knows.
enum class AllGather {
  kStar,      ///< naive: everything to rank 0 and back: 2 steps, but rank 0 sends n² blocks
  kRing,      ///< n - 1 steps, every link busy, each rank sends n - 1 blocks
  kBothWays,  ///< the ring in both directions at once: n / 2 steps
};

/// How a group is made.
struct GroupOptions {
  /// Of the rendezvous and, by default, of each call; × RUNGS_TIMEOUT_SCALE.
  double timeout_seconds = 60;
  AllGather all_gather = AllGather::kRing;  ///< the same at every rank
  /// Ranks with equal ids share a host. Empty: RUNGS_HOST_ID, else the boot id with the IPC and
  /// network namespaces.
  std::string host_id = {};
};

/// Which rank was lost and how that was noticed.
struct Lost {
  int rank = -1;       ///< -1: not known which
  std::string reason;  ///< "rank 3 died: its data connection to rank 4 ended without a goodbye"
};

/// One rank's membership. Calls are collective unless said otherwise; one thread at a time uses a
/// Group, except for lost(), check() and abort(), which any thread may call.
/// @note every wait ends: with kTimeout naming who was missing, with kPeerLost naming who died
class Group {
 public:
  /// Joins. Returns when every rank has joined.
  /// @throws Error kInvalidArgument for a rank outside [0, size), a rank that is already there, a
  ///         size other than the root's; kTimeout naming the ranks that are missing, where they
  ///         were awaited and how long; kSystem if the root cannot be reached (refused, wrong
  ///         secret); kPeerLost if root or a rank dies meanwhile
  Group(const UniqueId& id, int rank, int size, const GroupOptions& options = {});
  ~Group();
  Group(Group&&) noexcept;
  Group& operator=(Group&&) noexcept;
  /// Joins as RankEnvironment says (torchrun, mpirun, srun, `rungs launch`). Rank 0 also runs the
  /// root, at MASTER_ADDR; the port is RUNGS_BOOTSTRAP_PORT, else MASTER_PORT, else, where
  /// torchrun's own store holds that one, MASTER_PORT + 1. The secret is RUNGS_SECRET (set by
  /// `rungs launch`).
  static Group from_environment(const GroupOptions& options = {});

  [[nodiscard]] int rank() const noexcept;
  [[nodiscard]] int size() const noexcept;
  /// Ranks on this rank's host, ascending, itself included.
  [[nodiscard]] const std::vector<int>& local_ranks() const noexcept;
  [[nodiscard]] bool same_host(int rank) const;
  [[nodiscard]] bool same_process(int rank) const;
  /// All ranks by host, each host's ascending; hosts in the order of their lowest rank. The same on
  /// every rank.
  [[nodiscard]] std::vector<std::vector<int>> hosts() const;

  /// A group of some of the ranks: members[i] becomes its rank i. Collective among the members;
  /// each gives the same list. It has this group's options and processes, and counts its own calls:
  /// other members' calls on this group may go on meanwhile.
  /// @note this group must outlive it. A loss or abort() here is also the subgroup's (its lost()
  ///       says so, with rank -1 if who was lost is not a member); abort() of it ends this one too
  /// @throws Error kInvalidArgument for a rank that there is not, one named twice, a caller that is
  ///         not a member; at every member if their lists differ; kTimeout naming who did not call;
  ///         kPeerLost. No other subgroup can be made of these members afterwards
  [[nodiscard]] Group subgroup(const std::vector<int>& members);

  /// all[r * size_bytes ...] becomes rank r's `mine`.
  /// @throws Error kInvalidArgument, at every rank, if sizes differ or ranks make different calls;
  ///         kTimeout naming who is not in this call; kPeerLost. The group is unusable afterwards
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                  const std::optional<Deadline>& deadline = {});
  template <class T>
  std::vector<T> all_gather(const T& mine, const std::optional<Deadline>& deadline = {}) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<T> all(static_cast<std::size_t>(size()));
    all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)),
               deadline);
    return all;
  }
  /// Returns when all ranks called it.
  void barrier(const std::optional<Deadline>& deadline = {});

  /// A message to one rank; matched by (sender, tag), in order. Not collective. Returns when the
  /// kernel has it; until it is received it waits in the receiver's memory.
  void send(int to, std::uint64_t tag, std::span<const std::byte> message,
            const std::optional<Deadline>& deadline = {});
  /// @throws Error kTimeout (the message may still come: the group stays usable); kPeerLost
  std::vector<std::byte> receive(int from, std::uint64_t tag,
                                 const std::optional<Deadline>& deadline = {});
  /// A file descriptor to a rank of the same host (SCM_RIGHTS). The caller closes its own; the
  /// receiver owns what it gets. @throws Error kInvalidArgument for a rank of another host
  void send_fd(int to, std::uint64_t tag, int fd, const std::optional<Deadline>& deadline = {});
  int receive_fd(int from, std::uint64_t tag, const std::optional<Deadline>& deadline = {});

  /// Set as soon as a rank is known to have died or called abort(): to be polled by whoever waits
  /// for a peer elsewhere (a transfer, a kernel). Any thread; never blocks.
  [[nodiscard]] std::optional<Lost> lost() const;
  /// @throws Error kPeerLost if lost()
  void check() const;
  /// Tells all ranks that this one gives up, and why. Any thread.
  void abort(const std::string& reason) noexcept;

 private:
  Group();
  static Group open(const detail::JoinRequest& request, const GroupOptions& options);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rungs::bootstrap
