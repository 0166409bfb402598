#pragma once
/// @file request.hpp
/// What a Request points to: shared between the caller and whoever moves the bytes.

#include <rungs/core/deadline.hpp>
#include <rungs/core/error.hpp>
#include <rungs/transport/transport.hpp>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

namespace rungs::transport::detail {

struct RequestState {
  enum class Phase { kPending, kDone, kFailed };

  RequestState(bool send, int other, Kind carrier, std::uint64_t number, std::size_t bytes)
      : is_send(send),
        peer(other),
        kind(carrier),
        message(number),
        size_bytes(bytes) {}

  const bool is_send;
  const int peer;
  const Kind kind;
  const std::uint64_t message;
  const std::size_t size_bytes;  ///< of the message sent, or the room for one received
  std::atomic<std::size_t> passed_bytes = 0;
  std::atomic<std::size_t> total_bytes = 0;  ///< receiver: of the message, once known

  [[nodiscard]] Phase phase() const noexcept { return phase_.load(std::memory_order_acquire); }
  void finish();
  void fail(ErrorCode code, const std::string& why);
  /// Fails with the error's code, its text behind describe().
  void fail(const Error& error) { fail(error.code(), error.message()); }
  /// "receive of message 3 from rank 1 by socket: 131072 of 1048576 bytes had passed".
  [[nodiscard]] std::string describe() const;
  void wait(const Deadline& deadline);
  void throw_if_failed() const;

 private:
  void settle(Phase phase);

  std::atomic<Phase> phase_ = Phase::kPending;
  ErrorCode code_ = ErrorCode::kInternal;  // code_ and text_ are written before phase_
  std::string text_;
  std::mutex mutex_;
  std::condition_variable settled_;
};

}  // namespace rungs::transport::detail
