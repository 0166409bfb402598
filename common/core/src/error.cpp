#include <rungs/core/error.hpp>

#include <string_view>

namespace rungs {
namespace {

// Only the file's own folder and name: where a build lay on its author's disk is nobody's business.
std::string_view short_path(std::string_view path) {
  const std::size_t last = path.rfind('/');
  if (last == std::string_view::npos || last == 0) return path;
  const std::size_t before = path.rfind('/', last - 1);
  return before == std::string_view::npos ? path : path.substr(before + 1);
}

}  // namespace

const char* to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "InvalidArgument";
    case ErrorCode::kUnsupported:
      return "Unsupported";
    case ErrorCode::kSystem:
      return "System";
    case ErrorCode::kCuda:
      return "Cuda";
    case ErrorCode::kVerbs:
      return "Verbs";
    case ErrorCode::kTimeout:
      return "Timeout";
    case ErrorCode::kPeerLost:
      return "PeerLost";
    case ErrorCode::kInternal:
      return "Internal";
  }
  return "unknown";
}

Error::Error(ErrorCode code, const std::string& message, const char* file, int line)
    : std::runtime_error(
          concat(to_string(code), ": ", message, " [", short_path(file), ':', line, ']')),
      code_(code),
      message_(message) {}

}  // namespace rungs
