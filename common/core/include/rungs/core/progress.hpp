#pragma once
/// @file progress.hpp
/// Progress of long work. On a terminal one line that is redrawn; in a file or a CI log a plain
/// line now and then.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

namespace rungs {

/// Where and how progress is shown. The defaults ask the process's standard error; tests set
/// everything.
struct ProgressOptions {
  std::ostream* out = nullptr;    ///< null: standard error
  std::optional<bool> terminal;   ///< whether `out` redraws lines
  std::optional<bool> color;      ///< terminal only; default: unless NO_COLOR is set
  std::optional<bool> unicode;    ///< bar of "━", else of "#"; default: what the locale says
  std::size_t columns = 0;        ///< 0: the terminal's width, asked at each redraw
  double redraw_seconds = 0.1;    ///< at most one redraw in this time
  double plain_seconds = 5;       ///< at most one plain line in this time
  std::function<double()> clock;  ///< seconds; empty: a steady clock
};

/// A bar with a count, the time left and a suffix:
///
///     train ━━━━━━━━━━━━━━━━──────────  62 %  155/250  0:51 left  loss 2.41 nats/byte  3.1k tok/s
///
/// @note used by one thread; log lines may come between (the bar is wiped and drawn again)
class Progress {
 public:
  /// @param total steps of the whole work; 0: unknown, shows the count and the time used
  Progress(std::string label, std::uint64_t total, ProgressOptions options = {});
  /// As finish() if that was not called, with what was done so far.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `done` steps are done. Cheap: writes only when it is time. Ignored after finish().
  void update(std::uint64_t done, std::string_view suffix = {});
  /// Writes the last state with the time used and ends the line. Nothing is written afterwards.
  void finish(std::string_view suffix = {});

 private:
  [[nodiscard]] double seconds_used() const;
  [[nodiscard]] std::string facts(bool last) const;
  [[nodiscard]] std::string bar_line(bool last) const;
  void write(bool last);

  std::string label_;
  std::uint64_t total_;
  ProgressOptions options_;
  std::string suffix_;
  std::uint64_t done_ = 0;
  double started_ = 0;
  double written_ = 0;
  bool finished_ = false;
};

}  // namespace rungs
