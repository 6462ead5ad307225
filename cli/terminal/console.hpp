// Where a verb writes: results to `out`, progress and diagnostics to `err`.
//
// Used by every verb; main.cpp makes one on the process's streams, tests one on string streams. Nothing
// else in the program prints. Not thread-safe.
#pragma once

#include <chrono>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

namespace foreshard::cli {

/// What a message takes from an input is shown as a terminal may have it (printable.hpp), and not at any length.
struct Console {
  std::ostream& out;
  std::ostream& err;
  bool quiet = false;     ///< --quiet: no notes, no progress; errors and warnings stay
  bool terminal = false;  ///< err is a terminal: a progress bar may be drawn
  bool color = false;     ///< err is a terminal and NO_COLOR is not set
  /// --unverified: stores are read as they are, which every answer rests on.
  bool unverified = false;
  /// Set by a verb that leaves threads at work: the process is to end without what they use being taken down (_Exit).
  bool threads_left = false;

  /// One line of news on err; nothing when quiet.
  void note(std::string_view text);
  /// "warning: text" on err, also when quiet: what makes a result less certain is never hidden.
  void warn(std::string_view text);
  /// "error: text" on err; the text's lines are its own: what it takes from inputs has none (in_line()).
  void error(std::string_view text);
};

/// A bar on err, drawn only on a terminal and when not quiet, at most ten times a second; wiped when done.
class Progress {
 public:
  Progress(Console& console, std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// What is shown in place of the constructor's text.
  void says(std::string what) { what_ = std::move(what); }
  /// `done` of `total`; total 0 shows no share.
  void at(std::uint64_t done, std::uint64_t total);

 private:
  Console& console_;
  std::string what_;
  bool active_;
  std::chrono::steady_clock::time_point drawn_{};
};

}  // namespace foreshard::cli
