#pragma once
/// The one line of the terminal that a progress bar keeps redrawing, so that log lines do not run
/// into it.

namespace rungs::detail {

/// Called with true when a bar stands on standard error's last line, with false when it has ended.
void set_bar_on_stderr(bool stands) noexcept;
/// Wipes the bar, if one stands there; its next update draws it again. Call before writing to
/// standard error.
void wipe_bar() noexcept;

}  // namespace rungs::detail
