#pragma once
/// @file transport.hpp
/// Send and receive between two ranks over whatever lies between them: one contract, four carriers.
///
///     transport::Context context(group, &device);                       // once a rank
///     transport::Link link = context.connect(peer, {.kind = Kind::kVerbs});  // both ranks call it
///     transport::Request r = link.send(data, size_bytes);  ...  r.wait();

#include <rungs/bootstrap/group.hpp>
#include <rungs/core/deadline.hpp>
#include <rungs/gpu/device.hpp>
#include <rungs/ladder/rung.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace rungs::verbs {
class Device;
}

namespace rungs::transport {

/// What carries the bytes.
enum class Kind {
  kSharedMemory,  ///< host memory (memfd) that both ranks map
  kSocket,        ///< TCP
  kVerbs,         ///< RDMA writes of stage 01 with the receiver's clear-to-send
  kGpuPeer,       ///< slots in the receiver's GPU memory, written by the sender's GPU
};
/// "shared_memory", "socket", "verbs", "gpu_peer".
const char* to_string(Kind kind) noexcept;
/// @throws Error kInvalidArgument with the nearest match
Kind kind_from_string(std::string_view name);

/// Which rung moves a message.
enum class Schedule {
  kBlocking,   ///< naive: one slot; send() and receive() do all work in the call, one piece after
               ///< the other
  kPipelined,  ///< a FIFO of 8 slots with credits; a progress thread moves the pieces
};
/// "blocking", "pipelined".
const char* to_string(Schedule schedule) noexcept;

/// Pieces of one direction that may be under way at once.
inline constexpr int kSlots = 8;

/// How a link is made. Both ranks must say the same.
struct LinkOptions {
  std::optional<Kind> kind;  ///< empty: the best that both ranks can use
  Schedule schedule = Schedule::kPipelined;
  std::size_t slot_bytes = std::size_t{128} << 10;  ///< a piece of a message: 64 bytes to 64 MiB
  std::string verbs_device = "soft0";               ///< the ranks' names may differ
  std::uint64_t tag = 0;        ///< tells links between the same two ranks apart
  double timeout_seconds = 60;  ///< set-up, and each blocking call; × RUNGS_TIMEOUT_SCALE
};

namespace detail {
struct RequestState;
class LinkImpl;
class ContextState;
}  // namespace detail

/// A send or receive under way. The memory must stay until it is done or its link is destroyed.
/// @note one thread at a time; copies name the same request
class Request {
 public:
  Request() = default;
  explicit Request(std::shared_ptr<detail::RequestState> state) : state_(std::move(state)) {}
  /// Whether it is done. @throws as wait(), but not kTimeout
  [[nodiscard]] bool test();
  /// Waits. A send is done when the receiver has taken all of it.
  /// @throws Error kPeerLost naming the peer, the message and how many bytes had passed;
  ///         kTimeout likewise (the request goes on: wait again, or destroy the link);
  ///         kInvalidArgument if the receiver's size was too small (on both sides: the link goes
  ///         on with the next message), or if this rank destroyed the link;
  ///         kVerbs, kSystem, kCuda if the carrier failed
  void wait(const Deadline& deadline = Deadline::standard());
  /// Bytes received: may be fewer than the buffer held. Once done.
  /// @throws Error kInvalidArgument before
  [[nodiscard]] std::size_t size_bytes() const;

 private:
  std::shared_ptr<detail::RequestState> state_;
};

/// An ordered, reliable pair of pipes to one peer: message i sent is message i received.
/// @note sending and receiving may run at once; each of the two is one thread's at a time
class Link {
 public:
  explicit Link(std::unique_ptr<detail::LinkImpl> impl);
  ~Link();  ///< pending requests fail: the peer's with kPeerLost ("closed"), then this rank's
  Link(Link&&) noexcept;
  Link& operator=(Link&&) noexcept;
  [[nodiscard]] int peer() const noexcept;
  [[nodiscard]] Kind kind() const noexcept;
  /// @param data host memory, or memory of the context's device (told apart by `on_device`)
  /// @param stream for device memory: work enqueued before is waited for; null: none pending
  /// @throws Error kInvalidArgument for null data with a size, or device memory in a context that
  ///         has no device. Everything else comes out of Request::wait()
  Request send(const void* data, std::size_t size_bytes, bool on_device = false,
               gpu::StreamHandle stream = nullptr);
  /// @param size_bytes room: a longer message is refused, with kInvalidArgument on both sides
  Request receive(void* data, std::size_t size_bytes, bool on_device = false,
                  gpu::StreamHandle stream = nullptr);

 private:
  std::unique_ptr<detail::LinkImpl> impl_;
};

/// What a rank's links share: the group, the device, the HCAs, the progress thread.
/// @note connect() uses the group, and so belongs to the thread that uses it. The group must
///       outlive the links
class Context {
 public:
  /// @param device may be null: no GPU memory, no kGpuPeer
  Context(bootstrap::Group& group, const gpu::Device* device);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  /// Whether this rank can reach `peer` by `kind`, and if not, why not. What the peer lacks shows
  /// in connect().
  [[nodiscard]] ladder::Support supports(int peer, Kind kind) const;
  /// Makes `device` known as `name` for LinkOptions::verbs_device: an HCA with options of its own.
  void add_verbs_device(const std::string& name, const verbs::Device& device);
  /// The set-up handshake; both ranks call it with equal options, in the same order per pair.
  /// @throws Error kInvalidArgument if the two ends disagree (naming both values); kUnsupported
  ///         with the reason; kSystem if the peer could not build its end; kPeerLost; kTimeout
  ///         (then this pair's set-up is out of step: connect again in a new group)
  Link connect(int peer, const LinkOptions& options = {});

 private:
  std::shared_ptr<detail::ContextState> state_;
};

}  // namespace rungs::transport
