// Verbs: the receiver says where (clear-to-send), the sender writes there. Memory of the caller is
// registered and written straight; small pieces go through a registered pool.
//
// The blocking schedule stages every piece on both sides: what zero copy saves shows between the
// two rungs.
//
// Cost: no copy a byte but the HCA's; two or three work requests and two completions a piece.

#include "carriers/carriers.hpp"
#include "carriers/verbs_pipe.hpp"
#include "detail/context_state.hpp"

#include <rungs/core/error.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <string>
#include <utility>

namespace rungs::transport::detail {
namespace {

// Below this a copy costs less than looking a registration up and a second work request's segment.
constexpr std::size_t kSmallBytes = std::size_t{8} << 10;

class VerbsOutlet final : public Outlet {
 public:
  VerbsOutlet(std::unique_ptr<VerbsPipe> pipe, unsigned slots)
      : pipe_(std::move(pipe)),
        slots_(slots) {}
  bool put(const Piece& piece, const Source& source) override;
  bool settled(Settlement& out) override;
  void cancel(std::uint64_t) override {}  // a refused message has no bytes under way
  void stop() noexcept override { pipe_->stop(); }
  void close() noexcept override { pipe_->close(); }

 private:
  struct UnderWay {
    Settlement fate;
    std::shared_ptr<verbs::MemoryRegion> region;
  };
  std::unique_ptr<VerbsPipe> pipe_;
  unsigned slots_;
  std::deque<UnderWay> under_way_;
  std::uint64_t granted_ = 0;  // clear-to-sends that came
  std::uint64_t put_ = 0;
  std::size_t acknowledged_ = 0;  // of under_way_, from the front
};

bool VerbsOutlet::put(const Piece& piece, const Source& source) {
  granted_ += pipe_->arrivals();
  if (under_way_.size() >= slots_) return false;
  if (put_ == granted_) {
    if (pipe_->peer_closed()) RUNGS_THROW(kPeerLost, "the peer closed the link");
    return false;
  }
  // 1. The window of this piece. A later message's: this one was refused, which is about to show.
  ClearToSend clear;
  std::memcpy(&clear, pipe_->entry(put_), sizeof(clear));
  if (clear.message != piece.message) return false;
  UnderWay next;
  next.fate = {piece.total_bytes > clear.capacity_bytes, clear.capacity_bytes};
  // 2. The bytes, where they fit.
  verbs::Segment segment{};
  const bool has_bytes = !next.fate.refused && piece.size_bytes > 0;
  if (has_bytes && pipe_->staged(piece.size_bytes)) {
    const std::size_t at = pipe_->stage_offset(put_);
    std::memcpy(pipe_->stage().data() + at, source.data, piece.size_bytes);
    segment = pipe_->stage().region().segment(at, piece.size_bytes);
  } else if (has_bytes) {
    next.region = pipe_->hca().registered(source.region, verbs::Access::kLocalRead);
    const auto at =
        static_cast<std::size_t>(source.data - static_cast<const std::byte*>(next.region->data()));
    segment = next.region->segment(at, piece.size_bytes);
  }
  // 3. The header behind them.
  pipe_->write(has_bytes ? &segment : nullptr, clear.address, clear.rkey, put_, &piece,
               sizeof(piece));
  under_way_.push_back(std::move(next));
  ++put_;
  return true;
}

bool VerbsOutlet::settled(Settlement& out) {
  if (under_way_.empty()) return false;
  if (acknowledged_ == 0) acknowledged_ = pipe_->acknowledged();
  if (acknowledged_ == 0) return false;
  --acknowledged_;
  out = under_way_.front().fate;
  under_way_.pop_front();
  return true;
}

class VerbsInlet final : public Inlet {
 public:
  VerbsInlet(std::unique_ptr<VerbsPipe> pipe, unsigned slots)
      : pipe_(std::move(pipe)),
        slots_(slots) {}
  bool offer(const Window& window) override;
  bool filled(Piece& out, bool& refused) override;
  void stop() noexcept override { pipe_->stop(); }
  void close() noexcept override { pipe_->close(); }

 private:
  struct Offered {
    Window window;
    bool staged;
    std::shared_ptr<verbs::MemoryRegion> region;
  };
  std::unique_ptr<VerbsPipe> pipe_;
  unsigned slots_;
  std::deque<Offered> offered_;
  std::uint64_t offers_ = 0;
  std::uint64_t filled_ = 0;
  std::size_t arrived_ = 0;  // headers that came and were not looked at
};

bool VerbsInlet::offer(const Window& window) {
  if (offered_.size() >= slots_) return false;
  Offered next{window, pipe_->staged(window.size_bytes), nullptr};
  ClearToSend clear{
      window.message, window.offset_bytes, window.capacity_bytes, window.size_bytes, 0, 0, 0};
  if (next.staged) {
    clear.address = pipe_->stage().address(pipe_->stage_offset(offers_));
    clear.rkey = pipe_->stage().region().rkey();
  } else {
    next.region = pipe_->hca().registered(window.region,
                                          verbs::Access::kLocalWrite | verbs::Access::kRemoteWrite);
    clear.address = reinterpret_cast<std::uintptr_t>(window.data);
    clear.rkey = next.region->rkey();
  }
  pipe_->write(nullptr, 0, 0, offers_, &clear, sizeof(clear));
  offered_.push_back(std::move(next));
  ++offers_;
  return true;
}

bool VerbsInlet::filled(Piece& out, bool& refused) {
  if (arrived_ == 0) arrived_ = pipe_->arrivals();
  if (arrived_ == 0) {
    if (pipe_->peer_closed() && !offered_.empty())
      RUNGS_THROW(kPeerLost, "the peer closed the link");
    return false;
  }
  RUNGS_ASSERT(!offered_.empty(), "a piece came that no window was offered for");
  --arrived_;
  std::memcpy(&out, pipe_->entry(filled_), sizeof(out));
  const Offered oldest = std::move(offered_.front());
  offered_.pop_front();
  check_piece(out, oldest.window);
  refused = out.total_bytes > oldest.window.capacity_bytes;
  if (oldest.staged && !refused && out.size_bytes > 0) {
    std::memcpy(oldest.window.data, pipe_->stage().data() + pipe_->stage_offset(filled_),
                out.size_bytes);
  }
  ++filled_;
  return true;
}

// What both must have in common: a software HCA's shared-memory wire does not reach a UDP one.
void compare_wires(SetUp& set_up, const verbs::DeviceInfo& info) {
  std::array<char, 64> mine{};
  info.wire.copy(mine.data(), mine.size() - 1);
  const std::array<char, 64> theirs = set_up.exchange(mine);
  RUNGS_REQUIRE(mine == theirs, "connect by verbs: the ends disagree about the wire: rank ",
                set_up.context().group().rank(), " has ", mine.data(), " (", info.name, "), rank ",
                set_up.peer(), " has ", theirs.data());
}

}  // namespace

Ends connect_verbs(SetUp& set_up) {
  const std::shared_ptr<Hca> hca = set_up.context().hca(set_up.options().verbs_device);
  compare_wires(set_up, hca->device().info());
  const bool blocking = set_up.options().schedule == Schedule::kBlocking;
  const std::size_t stage =
      blocking ? set_up.options().slot_bytes : std::min(kSmallBytes, set_up.options().slot_bytes);
  auto out = std::make_unique<VerbsPipe>(hca, sizeof(ClearToSend), set_up.slots(), stage);
  auto in = std::make_unique<VerbsPipe>(hca, sizeof(Piece), set_up.slots(), stage);
  const std::array<VerbsNote, 2> theirs =
      set_up.exchange(std::array<VerbsNote, 2>{out->note(), in->note()});
  out->connect(theirs[1]);
  in->connect(theirs[0]);
  return {std::make_unique<VerbsOutlet>(std::move(out), set_up.slots()),
          std::make_unique<VerbsInlet>(std::move(in), set_up.slots())};
}

}  // namespace rungs::transport::detail
