#include "cli/terminal/child_process.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "traces/files/uninterrupted.hpp"
#include "traces/files/write_all.hpp"

extern char** environ;

namespace foreshard::cli {

namespace {

std::array<std::atomic<pid_t>, 16> g_running;  // 0: free; of kill_programs()
static_assert(std::atomic<pid_t>::is_always_lock_free);

void exchange(pid_t before, pid_t after) {
  for (std::atomic<pid_t>& process : g_running) {
    pid_t expected = before;
    if (process.compare_exchange_strong(expected, after)) return;
  }
}

/// No signal comes between the start of a program and its entry among those that kill_programs() ends.
Result<pid_t> start(std::vector<std::string>& arguments, const posix_spawn_file_actions_t* actions,
                    const std::string& hint) {
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  sigset_t all{}, before{};
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &before);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, pointers[0], actions, &attributes, pointers.data(), environ);
  if (failed == 0) exchange(0, child);
  ::posix_spawnattr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failed == 0) return child;
  return fail(ErrorKind::input, fmt::format("{} cannot be started: {}", arguments[0], std::strerror(failed)), {}, hint);
}

/// Whether it ended with status 0.
Result<bool> wait_for(pid_t child, const std::string& program, const std::string& hint) {
  int status = 0;
  const pid_t gone = traces::uninterrupted([&] { return ::waitpid(child, &status, 0); });
  exchange(child, 0);
  if (gone < 0) return fail(ErrorKind::input, program + " was lost", {}, hint);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// Until nobody has the other end any more.
std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 4096> part{};
  for (;;) {
    const ssize_t n = traces::uninterrupted([&] { return ::read(descriptor, part.data(), part.size()); });
    if (n <= 0) return text;
    text.append(part.data(), static_cast<std::size_t>(n));
  }
}

/// Runs it to its end with `input` (-1: ours) as its standard input, and takes what it writes: in `everything` what it
/// says on standard error, too.
Result<ProgramOutput> collect(std::vector<std::string>& arguments, int input, bool everything,
                              const std::string& hint) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return fail(ErrorKind::input, fmt::format("pipe2: {}", std::strerror(errno)), arguments[0]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  if (input >= 0) ::posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  if (everything) ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  const auto child = start(arguments, &actions, hint);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  ProgramOutput output;
  if (child) output.text = read_all(ends[0]);
  ::close(ends[0]);
  FORESHARD_TRY(child);
  const auto succeeded = wait_for(*child, arguments[0], hint);
  FORESHARD_TRY(succeeded);
  output.succeeded = *succeeded;
  return output;
}

}  // namespace

Result<std::string> filter_program(std::vector<std::string> arguments, std::string_view input,
                                   const std::string& hint) {
  // A file, so that neither side waits for the other.
  const int in = ::memfd_create("input", MFD_CLOEXEC);
  const bool ready = in >= 0 && traces::write_all(in, input) && ::lseek(in, 0, SEEK_SET) == 0;
  const std::string reason = std::strerror(errno);
  auto output = ready ? collect(arguments, in, false, hint)
                      : fail(ErrorKind::input, fmt::format("{} cannot be given its input: {}", arguments[0], reason));
  if (in >= 0) ::close(in);
  FORESHARD_TRY(output);
  if (!output->succeeded) return fail(ErrorKind::input, arguments[0] + " did not succeed");
  return std::move(output->text);
}

Result<ProgramOutput> read_program(std::vector<std::string> arguments) {
  return collect(arguments, -1, true, {});
}

void kill_programs() noexcept {
  for (const std::atomic<pid_t>& process : g_running)
    if (const pid_t child = process; child > 0) ::kill(child, SIGKILL);
}

}  // namespace foreshard::cli
