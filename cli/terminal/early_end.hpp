// The first Ctrl-C ends the work of a verb that has an answer before it is done, and not the process.
//
// Who: cli's tune and sweep; main.cpp's handler. One at a time; a signal may come on any thread.
#pragma once

namespace foreshard::cli {

/// While it lives the first SIGINT or SIGTERM ends no process, but is told here; the next one does.
class EarlyEnd {
 public:
  EarlyEnd();
  ~EarlyEnd();
  EarlyEnd(const EarlyEnd&) = delete;
  EarlyEnd& operator=(const EarlyEnd&) = delete;
};

/// The signal that was kept, until the process ends; 0: none.
[[nodiscard]] int kept_signal() noexcept;

/// For a handler: whether somebody ends for it, so that the process need not. Async-signal-safe.
[[nodiscard]] bool keep_signal(int signal) noexcept;

/// For tests, which go on: as if none had come.
void forget_signal() noexcept;

}  // namespace foreshard::cli
