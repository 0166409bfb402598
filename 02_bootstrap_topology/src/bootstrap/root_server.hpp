#pragma once
/// @file root_server.hpp
/// The root's side of the rendezvous: one thread, every socket non-blocking, so that a stranger who
/// connects and says nothing, or something wrong, keeps nobody waiting.

#include "bootstrap/rendezvous.hpp"

#include <rungs/core/deadline.hpp>
#include <rungs/core/error.hpp>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

struct pollfd;

namespace rungs::bootstrap::detail {

class RootServer {
 public:
  struct Setup {
    Address listen;
    Address reachable;  ///< what others use, where `listen` is a wildcard; its port is filled in
    Key key{};
    int ranks = 1;
    double timeout_seconds = 60;
  };
  explicit RootServer(const Setup& setup);
  /// Ranks that still wait are told that the root has gone.
  ~RootServer();
  RootServer(const RootServer&) = delete;
  RootServer& operator=(const RootServer&) = delete;

  /// Where ranks find it.
  [[nodiscard]] const Address& address() const noexcept { return address_; }
  /// Waits for the rendezvous to end. @throws what ended it, if not success; kTimeout
  void wait(const Deadline& deadline);

 private:
  // A connection. It proves the secret, registers, waits for the others and gets its answer.
  struct Visitor {
    enum class Stage { kHandshake, kRegistration, kWaiting, kAnswered };
    Descriptor fd;
    std::string from;
    Handshake handshake;
    Deadline deadline;  // of the present stage, until it waits
    Stage stage = Stage::kHandshake;
    short events = 0;
    MessageReader reader = {};
    std::vector<std::byte> out = {};
    Registration registration = {};
  };

  void run() noexcept;
  void loop();
  [[nodiscard]] std::vector<pollfd> poll_set() const;
  [[nodiscard]] int poll_timeout() const;
  void accept_all();
  void advance(Visitor& visitor);
  void greet(Visitor& visitor);
  void read_registration(Visitor& visitor);
  void register_rank(Visitor& visitor);
  void drop(Visitor& visitor, const std::string& reason);
  void answer(Visitor& visitor, const std::vector<std::byte>& message);
  void flush(Visitor& visitor);
  void drop_late();
  void welcome_all();
  void fail_all(ErrorCode code, const std::string& text);
  [[nodiscard]] std::string missing() const;
  void end(std::optional<Error> failure);

  const int ranks_;
  const Key key_;
  Descriptor listener_;
  Address address_;
  std::string name_;  // "rendezvous at 127.0.0.1:4000"
  Event stop_;

  // The thread's own.
  Deadline deadline_;
  Deadline give_up_;  // the root's deadline or that of the least patient rank
  int least_patient_ = -1;
  std::vector<std::unique_ptr<Visitor>> visitors_;
  std::vector<Visitor*> registered_;  // by rank
  int there_ = 0;
  std::vector<std::string> complaints_;  // of ranks that were turned away
  std::optional<Deadline> accept_again_;
  std::optional<Deadline> flush_by_;  // stopping: answers are on their way
  bool welcomed_ = false;
  std::optional<Refusal> failed_;

  // How it ended.
  std::mutex mutex_;
  std::condition_variable ended_;
  bool has_ended_ = false;
  std::optional<Error> failure_;

  std::thread thread_;  // last: starts when everything else stands
};

}  // namespace rungs::bootstrap::detail
