// Runs another program and waits for it, without a shell. POSIX.
#pragma once

#include <string>
#include <vector>

#include "core/base/error.hpp"

namespace foreshard::cli {

/// `arguments[0]` is looked up in PATH; its output goes where ours goes. Fails (input) where it cannot be started, with
/// `hint`, or ends otherwise than with status 0.
[[nodiscard]] Result<void> run_program(std::vector<std::string> arguments, const std::string& hint);

struct ProgramOutput {
  bool succeeded = false;  ///< it ended with status 0
  std::string text;        ///< what it wrote, standard output and standard error in one
};

/// The same, but its output comes back instead, all of it, however it ends. Fails (input) where it cannot be started.
[[nodiscard]] Result<ProgramOutput> read_program(std::vector<std::string> arguments);

}  // namespace foreshard::cli
