// The process: streams, environment and signals. Everything else is behind front_door.hpp.

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>

#include "cli/front_door.hpp"
#include "cli/verbs/verbs.hpp"
#include "core/base/check_context.hpp"

namespace {

/// Ctrl-C. Files are written under a temporary name and renamed, so leaving at once tears none.
extern "C" void interrupted(int) {
  constexpr char kText[] = "\nforeshard: interrupted\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, kText, sizeof kText - 1);
  _exit(foreshard::cli::kInterrupted);
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGINT, interrupted);
  std::signal(SIGPIPE, SIG_DFL);
  std::ios::sync_with_stdio(false);
  foreshard::set_replay_command(argc, argv);
  foreshard::cli::Console console{std::cout, std::cerr};
  console.terminal = isatty(STDERR_FILENO) == 1;
  console.color = console.terminal && std::getenv("NO_COLOR") == nullptr;
  try {
    const int status = foreshard::cli::run({argv + 1, argv + argc}, console);
    std::cout.flush();
    if (!std::cout) {
      console.error("standard output cannot be written; is the disk full?");
      return foreshard::cli::kInternalError;
    }
    return status;
  } catch (const std::exception& failure) {
    console.error(std::string("internal error: ") + failure.what() + "\n  hint: please report it with the command");
    return foreshard::cli::kInternalError;
  }
}
