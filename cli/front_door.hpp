// The front door: from the process's arguments to an exit status.
//
// Wraps CLI11: its own exit codes (100 to 127) never leave, unknown verbs and options are refused with a
// suggestion, and help begins with two examples. In a function so that tests can knock without a process.
#pragma once

#include <string>
#include <vector>

#include "cli/terminal/console.hpp"

namespace foreshard::cli {

/// `arguments` without the program's name. Returns an exit status of docs/exit_codes.md.
[[nodiscard]] int run(const std::vector<std::string>& arguments, Console& console);

}  // namespace foreshard::cli
