#pragma once
/// @file error.hpp
/// The one error type of the repository and the macros that raise it. docs/errors.md lists what
/// each code means, what is recoverable and what state is left.

#include <sstream>
#include <stdexcept>
#include <string>

namespace rungs {

/// What the caller can do about a failure; the text says what happened.
enum class ErrorCode {
  kInvalidArgument,  ///< the caller's fault: fix the call
  kUnsupported,      ///< this GPU, NIC or build cannot do it
  kSystem,           ///< the operating system said no (errno is in the text)
  kCuda,             ///< a CUDA runtime or driver call, or an emulated kernel, failed
  kVerbs,            ///< an RDMA object or work request failed
  kTimeout,          ///< a deadline passed; the text names who was awaited
  kPeerLost,         ///< another rank died or closed its connection
  kInternal,         ///< a bug in rungs
};

/// The code's name as docs/errors.md spells it: "InvalidArgument", "Timeout", ...
const char* to_string(ErrorCode code) noexcept;

/// Thrown by set-up and launch functions. Data-path and device functions do not throw.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message, const char* file, int line);
  [[nodiscard]] ErrorCode code() const noexcept { return code_; }
  /// The message without source position and code: what a command-line program prints.
  [[nodiscard]] const std::string& message() const noexcept { return message_; }

 private:
  ErrorCode code_;
  std::string message_;
};

/// Joins its arguments with operator<<; for error texts.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

}  // namespace rungs

/// Throws rungs::Error with the code `rungs::ErrorCode::code` and the text of the other arguments
/// joined.
#define RUNGS_THROW(code, ...) \
  throw ::rungs::Error(::rungs::ErrorCode::code, ::rungs::concat(__VA_ARGS__), __FILE__, __LINE__)

/// Throws kInvalidArgument when the caller broke a precondition. Name the value and the way out:
/// RUNGS_REQUIRE(k >= 1, "gemm: K must be at least 1, got ", k).
#define RUNGS_REQUIRE(condition, ...)                             \
  do {                                                            \
    if (!(condition)) RUNGS_THROW(kInvalidArgument, __VA_ARGS__); \
  } while (false)

/// Throws kInternal when rungs itself is wrong.
#define RUNGS_ASSERT(condition, ...)                                                 \
  do {                                                                               \
    if (!(condition)) RUNGS_THROW(kInternal, "bug: (" #condition ") ", __VA_ARGS__); \
  } while (false)
