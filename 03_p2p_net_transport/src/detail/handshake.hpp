#pragma once
/// @file handshake.hpp
/// The set-up handshake: both ends say what they want, and then build their ends together.
///
///     step  each end                                       to the other
///     1     says what it wants and can do                  Hello
///     2     compares: equal, or both throw, naming both
///     3     builds its carrier's ends in turns             'd' + bytes, descriptors, or 'e' + why
///     4     says that it is ready                          'd'

#include "detail/carrier.hpp"

#include <rungs/bootstrap/group.hpp>
#include <rungs/core/deadline.hpp>
#include <rungs/core/error.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace rungs::transport::detail {

/// Two ranks that build a link: a conversation in turns, through the bootstrap.
class SetUp {
 public:
  SetUp(ContextState& context, int peer, const LinkOptions& options);

  [[nodiscard]] ContextState& context() const noexcept { return context_; }
  [[nodiscard]] int peer() const noexcept { return peer_; }
  [[nodiscard]] const LinkOptions& options() const noexcept { return options_; }
  [[nodiscard]] const Deadline& deadline() const noexcept { return deadline_; }
  /// Whether both ranks are threads of this process.
  [[nodiscard]] bool same_process() const;
  /// Pieces under way at once: 1 for the blocking schedule.
  [[nodiscard]] unsigned slots() const noexcept;

  /// Steps 1 and 2. @return the carrier that both use
  Kind agree();
  /// Steps 3 and 4: runs `build`; if it fails here, the peer's exchange says so.
  Ends build(const std::function<Ends()>& build);

  /// Gives `mine` to the peer for `theirs`.
  std::vector<std::byte> exchange(std::span<const std::byte> mine);
  template <class T>
  T exchange(const T& mine) {
    static_assert(std::is_trivially_copyable_v<T>);
    const std::vector<std::byte> bytes = exchange(std::as_bytes(std::span(&mine, 1)));
    RUNGS_ASSERT(bytes.size() == sizeof(T), "set-up with rank ", peer_, ": ", bytes.size(),
                 " bytes came, ", sizeof(T), " were awaited");
    T theirs;
    std::memcpy(&theirs, bytes.data(), sizeof(T));
    return theirs;
  }
  /// Gives a descriptor for the peer's. Same host only. The caller keeps its own.
  int exchange_fd(int mine);
  /// The same for an object of this process: both ranks hold it then.
  std::shared_ptr<void> exchange_object(std::shared_ptr<void> mine);

  /// Waits like Backoff, within the set-up's deadline and as long as the peer lives.
  void until(const std::function<bool()>& ready, const char* what);

 private:
  void say(char kind, std::span<const std::byte> bytes);

  ContextState& context_;
  int peer_;
  LinkOptions options_;
  Deadline deadline_;
  bool told_peer_ = false;
};

}  // namespace rungs::transport::detail
