// The process: streams, environment and signals. Everything else is behind front_door.hpp.

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <system_error>

#include "cli/front_door.hpp"
#include "cli/terminal/child_process.hpp"
#include "cli/terminal/early_end.hpp"
#include "cli/terminal/exit_code.hpp"
#include "cli/terminal/host_memory.hpp"
#include "cli/terminal/printable.hpp"
#include "cli/verbs/gpu_backend.hpp"
#include "core/base/check_context.hpp"
#include "traces/store/atomic_file.hpp"

namespace {

/// Files appear under their names by renaming: what has not been renamed goes, and what runs for us ends.
void leave_nothing_behind() {
  foreshard::cli::kill_programs();
  foreshard::traces::remove_partial_files();
}

int answer_of(const std::exception& failure, foreshard::cli::Console& console) {
  const auto* system = dynamic_cast<const std::system_error*>(&failure);
  if (system != nullptr && system->code() == std::errc::resource_unavailable_try_again) {
    console.error("this machine does not give the threads that are needed: memory or a limit (ulimit -u, -v) is short");
    return foreshard::cli::kOutOfHostMemory;
  }
  console.error(std::string("internal error: ") + failure.what() + "\n  hint: please report it with the command");
  return foreshard::cli::kInternalError;
}

/// Ctrl-C, an end that is asked for, a terminal that is closed.
extern "C" void interrupted(int signal) {
  if (foreshard::cli::keep_signal(signal)) return;
  leave_nothing_behind();
  if (signal == SIGINT) {
    constexpr char kText[] = "\nforeshard: interrupted\n";
    [[maybe_unused]] const auto written = write(STDERR_FILENO, kText, sizeof kText - 1);
    _exit(foreshard::cli::kInterrupted);
  }
  std::signal(signal, SIG_DFL);
  raise(signal);  // who waits for us sees what ended us
}

/// What a shell or nohup has set to be ignored stays ignored.
void clean_up_on(int signal) {
  struct sigaction action {};
  if (sigaction(signal, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) return;
  action = {};
  action.sa_handler = interrupted;
  sigaction(signal, &action, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_DFL);
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit is an error
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGQUIT, SIGABRT, SIGALRM, SIGUSR1, SIGUSR2, SIGXCPU})
    clean_up_on(signal);
  std::ios::sync_with_stdio(false);
  foreshard::set_replay_command(argc, argv);
  if (foreshard::cli::gpu_backend() == nullptr) foreshard::cli::limit_host_memory();  // CUDA reserves addresses
  foreshard::cli::end_when_out_of_memory(leave_nothing_behind);
  // Names and messages come out of files of strangers. Elsewhere than on a terminal output is data, to the byte.
  // Never deleted: the streams are flushed after main.
  if (isatty(STDOUT_FILENO) == 1) std::cout.rdbuf(new foreshard::cli::PrintableBuffer(*std::cout.rdbuf()));
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
    if (foreshard::cli::kept_signal() == SIGTERM) {  // who waits for us sees what ended us, behind the answer
      std::signal(SIGTERM, SIG_DFL);
      raise(SIGTERM);
    }
    if (console.threads_left) std::_Exit(status);
    return status;
  } catch (const std::exception& failure) {
    return answer_of(failure, console);
  }
}
