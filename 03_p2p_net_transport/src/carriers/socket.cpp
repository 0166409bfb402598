// TCP: a piece is its 32-byte header and its bytes, straight from the sender's memory into the
// receiver's; 16 bytes come back for each piece taken. The kernel's socket buffers are the wire.
//
// Cost: two copies a byte by the kernel (in, out), two or three system calls a piece and side.

#include "carriers/carriers.hpp"
#include "carriers/socket_setup.hpp"

#include <rungs/core/error.hpp>

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace rungs::transport::detail {
namespace {

// What comes back for a piece.
struct Receipt {
  std::uint64_t refused = 0;
  std::uint64_t capacity_bytes = 0;
};

bool would_block(int reason) { return reason == EAGAIN || reason == EINTR; }

[[noreturn]] void throw_broken(int reason) {
  if (reason == 0) RUNGS_THROW(kPeerLost, "the peer closed the link");
  RUNGS_THROW(kPeerLost, "the connection broke: ", std::strerror(reason));
}

class SocketOutlet final : public Outlet {
 public:
  SocketOutlet(Descriptor socket, std::size_t slots) : socket_(std::move(socket)), slots_(slots) {}

  bool put(const Piece& piece, const Source& source) override {
    flush();
    if (pieces_.size() >= slots_) return false;
    pieces_.push_back({piece, source.data, {}, 0, false});
    flush();
    return true;
  }
  bool settled(Settlement& out) override;
  void cancel(std::uint64_t message) override;
  void stop() noexcept override {}
  void close() noexcept override { (void)shutdown(socket_.get(), SHUT_RDWR); }

 private:
  struct Outgoing {
    Piece piece;
    const std::byte* data;
    std::vector<std::byte> own;  // a copy, once the caller wants the memory back
    std::size_t written_bytes;   // of header and data
    bool cancelled;

    [[nodiscard]] bool written() const {
      return cancelled || written_bytes == sizeof(Piece) + piece.size_bytes;
    }
  };
  void flush();

  Descriptor socket_;
  std::size_t slots_;
  std::deque<Outgoing> pieces_;
  std::size_t written_ = 0;  // of pieces_, from the front
  int broken_ = -1;          // errno of a write that failed: receipts may still be read
  Receipt receipt_;
  std::size_t receipt_bytes_ = 0;
};

void SocketOutlet::flush() {
  while (written_ < pieces_.size() && broken_ < 0) {
    Outgoing& next = pieces_[written_];
    if (!next.cancelled) {
      auto* const header = reinterpret_cast<std::byte*>(&next.piece);
      const std::size_t of_header = std::min(next.written_bytes, sizeof(Piece));
      const std::size_t of_data = next.written_bytes - of_header;
      iovec parts[2] = {
          {header + of_header, sizeof(Piece) - of_header},
          {const_cast<std::byte*>(next.data) + of_data, next.piece.size_bytes - of_data}};
      msghdr message{};
      message.msg_iov = parts;
      message.msg_iovlen = 2;
      const ssize_t sent = sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
      if (sent < 0 && would_block(errno)) return;
      if (sent < 0) {
        broken_ = errno;
        return;
      }
      next.written_bytes += static_cast<std::size_t>(sent);
      if (!next.written()) continue;
    }
    ++written_;
  }
}

bool SocketOutlet::settled(Settlement& out) {
  flush();
  if (pieces_.empty()) return false;
  if (written_ > 0 && pieces_.front().cancelled) {
    out = {};
  } else {
    auto* const into = reinterpret_cast<std::byte*>(&receipt_) + receipt_bytes_;
    const ssize_t got = recv(socket_.get(), into, sizeof(Receipt) - receipt_bytes_, 0);
    if (got < 0 && would_block(errno)) {
      if (broken_ >= 0) throw_broken(broken_);
      return false;
    }
    if (got <= 0) throw_broken(got == 0 ? 0 : errno);
    receipt_bytes_ += static_cast<std::size_t>(got);
    if (receipt_bytes_ < sizeof(Receipt)) return false;
    receipt_bytes_ = 0;
    out = {receipt_.refused != 0, receipt_.capacity_bytes};
  }
  pieces_.pop_front();
  --written_;
  return true;
}

void SocketOutlet::cancel(std::uint64_t message) {
  for (std::size_t i = written_; i < pieces_.size(); ++i) {
    Outgoing& piece = pieces_[i];
    if (piece.piece.message != message) continue;
    if (piece.written_bytes == 0) {
      piece.cancelled = true;
    } else {  // half of it is on its way: the rest must follow
      piece.own.assign(piece.data, piece.data + piece.piece.size_bytes);
      piece.data = piece.own.data();
    }
  }
}

class SocketInlet final : public Inlet {
 public:
  explicit SocketInlet(Descriptor socket) : socket_(std::move(socket)) {}

  bool offer(const Window& window) override {
    windows_.push_back(window);
    return true;
  }
  bool filled(Piece& out, bool& refused) override;
  void stop() noexcept override {}
  void close() noexcept override {
    send_receipts();
    (void)shutdown(socket_.get(), SHUT_RDWR);
  }

 private:
  enum class Fate { kTaken, kRefused, kStale };
  bool read_some(std::byte* into, std::size_t want, std::size_t& got);
  bool read_header();
  bool read_data();
  void send_receipts() noexcept;

  Descriptor socket_;
  std::deque<Window> windows_;
  Piece piece_;
  std::size_t header_bytes_ = 0;  // of piece_ read
  std::size_t data_bytes_ = 0;
  Fate fate_ = Fate::kTaken;
  std::vector<std::byte> dropped_;   // where bytes go that nobody wants
  std::vector<std::byte> receipts_;  // not yet written
};

// Whether all of `want` is there.
bool SocketInlet::read_some(std::byte* into, std::size_t want, std::size_t& got) {
  while (got < want) {
    const ssize_t count = recv(socket_.get(), into + got, want - got, 0);
    if (count < 0 && would_block(errno)) return false;
    if (count <= 0) throw_broken(count == 0 ? 0 : errno);
    got += static_cast<std::size_t>(count);
  }
  return true;
}

bool SocketInlet::read_header() {
  if (header_bytes_ == sizeof(Piece)) return true;
  if (!read_some(reinterpret_cast<std::byte*>(&piece_), sizeof(Piece), header_bytes_)) return false;
  const Window& window = windows_.front();
  fate_ = Fate::kTaken;
  if (piece_.message < window.message) {
    fate_ = Fate::kStale;  // what was on its way when its message was refused
  } else {
    check_piece(piece_, window);
    if (piece_.total_bytes > window.capacity_bytes) fate_ = Fate::kRefused;
  }
  return true;
}

bool SocketInlet::read_data() {
  if (fate_ == Fate::kTaken)
    return read_some(windows_.front().data, piece_.size_bytes, data_bytes_);
  constexpr std::size_t kChunk = std::size_t{64} << 10;
  dropped_.resize(kChunk);
  while (data_bytes_ < piece_.size_bytes) {
    std::size_t got = 0;
    const std::size_t want = std::min<std::size_t>(kChunk, piece_.size_bytes - data_bytes_);
    const bool all = read_some(dropped_.data(), want, got);
    data_bytes_ += got;
    if (!all) return false;
  }
  return true;
}

void SocketInlet::send_receipts() noexcept {
  while (!receipts_.empty()) {
    const ssize_t sent = ::send(socket_.get(), receipts_.data(), receipts_.size(), MSG_NOSIGNAL);
    if (sent < 0 && would_block(errno)) return;
    // A sender that is gone needs no receipt; reading finds out what it means for this side.
    const std::size_t done = sent < 0 ? receipts_.size() : static_cast<std::size_t>(sent);
    receipts_.erase(receipts_.begin(), receipts_.begin() + static_cast<std::ptrdiff_t>(done));
  }
}

bool SocketInlet::filled(Piece& out, bool& refused) {
  send_receipts();
  while (!windows_.empty() && read_header() && read_data()) {
    const Receipt receipt{fate_ == Fate::kRefused ? 1u : 0u, windows_.front().capacity_bytes};
    const auto bytes = std::as_bytes(std::span(&receipt, 1));
    receipts_.insert(receipts_.end(), bytes.begin(), bytes.end());
    send_receipts();
    header_bytes_ = 0;
    data_bytes_ = 0;
    if (fate_ == Fate::kStale) continue;
    windows_.pop_front();
    out = piece_;
    refused = fate_ == Fate::kRefused;
    return true;
  }
  return false;
}

}  // namespace

Ends connect_socket(SetUp& set_up) {
  SocketPair sockets = connect_sockets(set_up);
  return {std::make_unique<SocketOutlet>(std::move(sockets.outgoing), set_up.slots()),
          std::make_unique<SocketInlet>(std::move(sockets.incoming))};
}

}  // namespace rungs::transport::detail
