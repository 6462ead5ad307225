// Runs another program and waits for it, without a shell. Its output goes where ours goes. POSIX.
#pragma once

#include <string>
#include <vector>

#include "core/base/error.hpp"

namespace foreshard::cli {

/// `arguments[0]` is looked up in PATH. Fails (input) where it cannot be started, with `hint`, or ends otherwise than
/// with status 0.
[[nodiscard]] Result<void> run_program(std::vector<std::string> arguments, const std::string& hint);

}  // namespace foreshard::cli
