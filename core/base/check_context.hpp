// What the program is doing, for the message of a failed FORESHARD_CHECK or of memory that ran out: which file it
// reads, which step and op of which rank it is at, and the command that does it again. Runs are deterministic, so that
// the command is the whole replay.
//
// Who: readers say which file, core/step where a run is, main the command; check.cpp and main print them. A scope costs
// two pointers: its text is made only when it is printed.
#pragma once

#include <string>

namespace foreshard {

/// While it lives, a failure in this thread prints describe(object). Scopes nest; they are left in the reverse
/// order. `object` must outlive the scope.
class CheckContext {
 public:
  using Describe = std::string (*)(const void* object);
  CheckContext(Describe describe, const void* object);
  ~CheckContext();
  CheckContext(const CheckContext&) = delete;
  CheckContext& operator=(const CheckContext&) = delete;

  /// A line for each scope of this thread, the innermost first; empty where there is none.
  [[nodiscard]] static std::string text();

 private:
  Describe describe_;
  const void* object_;
  const CheckContext* outer_;
};

/// While a file is read: "reading step.pickle". `path` must outlive it.
[[nodiscard]] CheckContext reading(const std::string& path);

/// The process's command line as a shell takes it, printed behind the scopes. To be set before threads are started.
void set_replay_command(int argc, const char* const* argv);
/// The same; empty where it was not set.
[[nodiscard]] const std::string& replay_command();

}  // namespace foreshard
