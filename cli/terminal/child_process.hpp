// Runs another program and waits for it, without a shell. POSIX.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"

namespace foreshard::cli {

/// `arguments[0]` is looked up in PATH and gets `input` on its standard input; what it writes to its standard output
/// comes back (a program that is given a file may not notice that a disk is full: dot does not), what it says goes
/// where ours goes. Fails (input) where it cannot be started, with `hint`, or ends otherwise than with status 0; which
/// file it was for, the caller adds.
[[nodiscard]] Result<std::string> filter_program(std::vector<std::string> arguments, std::string_view input,
                                                 const std::string& hint);

struct ProgramOutput {
  bool succeeded = false;  ///< it ended with status 0
  std::string text;        ///< what it wrote, standard output and standard error in one
};

/// The same, but without input, and however it ends. Fails (input) where it cannot be started.
[[nodiscard]] Result<ProgramOutput> read_program(std::vector<std::string> arguments);

/// Ends the programs that run for us, of whatever thread. Async-signal-safe: a handler of signals that ends the process
/// leaves no orphans.
void kill_programs() noexcept;

}  // namespace foreshard::cli
