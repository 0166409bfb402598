#pragma once
/// @file capture.hpp
/// The recording of a graph: one for every Graph::capture(), known to each stream that takes part.

#include <rungs/gpu/device.hpp>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace rungs::gpu::detail {

class Operation;
class StreamState;
struct GraphNode;

/// The nodes that whatever a stream records next has to wait for.
using Frontier = std::vector<std::size_t>;

/// Thread safe. Locks its own mutex before a stream's.
class Capture : public std::enable_shared_from_this<Capture> {
 public:
  /// Begins recording what is enqueued on `origin`.
  /// @throws Error kInvalidArgument for a default stream or one that is being captured
  static std::shared_ptr<Capture> begin(StreamState& origin);
  /// The innermost capture that the calling thread has begun; null if there is none.
  static Capture* of_this_thread();

  explicit Capture(StreamState& origin);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  void add(StreamState& stream, Operation operation);
  /// Adds a whole graph.
  void add(StreamState& stream, const std::vector<GraphNode>& graph);
  /// What an event recorded on `stream` stands for.
  [[nodiscard]] Frontier frontier_of(StreamState& stream);
  /// `stream` waits for `frontier`; it takes part from now on if it did not.
  void join(StreamState& stream, const Frontier& frontier);

  /// Makes the capture invalid and throws kInvalidArgument.
  [[noreturn]] void refuse(const std::string& reason);

  /// Ends the recording. Called by the thread that began it, once.
  /// @throws Error kInvalidArgument if the capture was refused something or a fork was not joined
  std::vector<GraphNode> end();
  /// Ends it without a graph.
  void abandon() noexcept;

 private:
  struct Branch {
    std::shared_ptr<StreamState> keep;
    Frontier frontier;
  };
  Branch& branch(StreamState& stream);
  void check_joined() const;

  StreamState* origin_;
  Capture* outer_ = nullptr;  // of the thread
  std::mutex mutex_;          // of what follows
  std::vector<GraphNode> nodes_;
  std::map<StreamState*, Branch> branches_;
  std::string refused_;
  bool ended_ = false;
};

}  // namespace rungs::gpu::detail
