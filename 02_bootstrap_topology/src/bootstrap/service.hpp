#pragma once
/// @file service.hpp
/// A rank's control thread. It accepts connections, reads every frame that arrives, and is the one
/// who notices that a rank has died: the kernel closes a dead process's sockets, so a connection
/// that ends without a goodbye is a death notice.
///
/// Control connections join each rank to its neighbours of the ring. News (a rank lost, a rank that
/// gave up, a goodbye) goes out over all of them and is passed on by whoever hears it first, so it
/// travels both ways round and reaches all ranks over any one gap. Where ranks have left, the rank
/// before the gap connects to the one behind it.

#include "bootstrap/frame.hpp"
#include "bootstrap/handshake.hpp"
#include "bootstrap/mailbox.hpp"
#include "bootstrap/socket.hpp"

#include <rungs/core/deadline.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

struct pollfd;

namespace rungs::bootstrap::detail {

/// A connection, shared by the thread that sends on it and the control thread that watches it.
struct Connection {
  Descriptor fd;
  std::uint32_t sequence = 0;  ///< frames sent
  bool torn = false;           ///< a frame was sent only in part: nothing can follow it
};
using SharedConnection = std::shared_ptr<Connection>;

class Service {
 public:
  Service(int rank, int size, const Key& key, Descriptor listener, Descriptor unix_listener);
  /// Leaves at once, without a word, unless leave() was called.
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  Mailbox& mailbox() noexcept { return mailbox_; }
  /// Collective calls that this rank has begun.
  std::atomic<std::uint64_t>& entered() noexcept { return entered_; }

  /// The control connection to the next rank, which this rank made.
  void add_control(Descriptor fd, int peer);
  /// A connection that this rank made to send frames: its end is noticed here.
  void watch(SharedConnection connection, int peer, Purpose purpose);
  /// Where each rank listens, for when a neighbour leaves.
  void set_addresses(std::vector<Address> addresses);
  /// Tells all ranks why the group is broken. Any thread.
  void spread(const News& news) noexcept;
  /// Sends "which call are you in?" round the ring.
  void ask_where(std::uint64_t query);
  /// Says goodbye on every connection and ends the thread.
  /// @param linger_seconds wait that long first, so that neighbours who are still connecting hear
  ///        the news
  void leave(std::uint64_t operations, double linger_seconds) noexcept;

 private:
  // A connection whose handshake is under way.
  struct Pending {
    Descriptor fd;
    Handshake handshake;
    Deadline deadline;
    bool connecting = false;  // this end's connect() has not finished
    int target = -1;          // this end connects to that rank; -1: the other end connected
    short events = 0;
    std::string other = {};  // who, for the log
  };
  // A connection with frames. Control connections also write.
  struct Link {
    SharedConnection connection;
    int peer;
    Purpose purpose;
    bool outgoing;  // this rank connected
    FrameReader reader;
    std::vector<std::byte> out = {};  // not yet written
    bool closed = false;
    bool shut = false;  // this end has said all
    /// The other end has sent something. Before that it may have given up just as this end took the
    /// connection for made, so that its end is no death.
    bool confirmed = false;
    [[nodiscard]] int fd() const { return connection->fd.get(); }
  };

  void post(std::function<void()> task);
  void run() noexcept;
  void loop();
  void run_tasks();
  [[nodiscard]] std::vector<pollfd> poll_set();
  [[nodiscard]] int poll_timeout() const;

  void accept_all(const Descriptor& listener, bool is_unix);
  void advance(Pending& pending);
  void established(Pending& pending);
  void drop(Pending& pending, const std::string& reason);
  void drop_late();

  void open_link(SharedConnection connection, int peer, Purpose purpose, bool outgoing);
  void read_link(Link& link);
  void link_ended(Link& link);
  void flush(Link& link);
  void queue(Link& link, FrameType type, std::span<const std::byte> payload);

  static std::vector<std::byte> encode_news(const News& news);
  static std::vector<std::byte> encode_bye(int rank, std::uint64_t operations);
  void hear(Link& from, const Frame& frame);
  void tell(const Link* except, FrameType type, const std::vector<std::byte>& payload);
  void handle_news(const News& news, const Link* from);
  void handle_bye(int rank, std::uint64_t operations, const Link* from);
  void pass_where(const Frame& frame);
  [[nodiscard]] Link* right_link();
  void heal_soon();
  void heal();
  void say_goodbye(std::uint64_t operations);
  [[nodiscard]] bool all_flushed() const;
  void shut_links();
  [[nodiscard]] bool all_acknowledged() const;

  const int rank_;
  const int size_;
  const Key key_;
  Mailbox mailbox_;
  std::atomic<std::uint64_t> entered_{0};
  Event wake_;
  std::mutex tasks_mutex_;
  std::vector<std::function<void()>> tasks_;

  // The control thread's own.
  Descriptor listener_;
  Descriptor unix_listener_;
  std::vector<std::unique_ptr<Pending>> pending_;
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<Address> addresses_;
  std::vector<bool> unreachable_;
  std::optional<Deadline> heal_at_;
  std::optional<Deadline> accept_again_;  // no descriptor was free
  std::optional<Deadline> stop_by_;       // goodbyes are on their way

  std::thread thread_;  // last: starts when everything else stands
};

}  // namespace rungs::bootstrap::detail
