#include "cli/terminal/child_process.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

extern char** environ;

namespace foreshard::cli {

namespace {

Result<pid_t> start(std::vector<std::string>& arguments, const posix_spawn_file_actions_t* actions,
                    const std::string& hint) {
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, pointers[0], actions, nullptr, pointers.data(), environ);
  if (failed == 0) return child;
  return fail(ErrorKind::input, fmt::format("{} cannot be started: {}", arguments[0], std::strerror(failed)), {}, hint);
}

/// Whether it ended with status 0.
Result<bool> wait_for(pid_t child, const std::string& program, const std::string& hint) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return fail(ErrorKind::input, program + " was lost", {}, hint);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// Until nobody has the other end any more.
std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 4096> part{};
  for (;;) {
    const ssize_t n = ::read(descriptor, part.data(), part.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return text;
    text.append(part.data(), static_cast<std::size_t>(n));
  }
}

}  // namespace

Result<void> run_program(std::vector<std::string> arguments, const std::string& hint) {
  const auto child = start(arguments, nullptr, hint);
  FORESHARD_TRY(child);
  const auto succeeded = wait_for(*child, arguments[0], hint);
  FORESHARD_TRY(succeeded);
  if (!*succeeded) return fail(ErrorKind::input, arguments[0] + " did not succeed", {}, hint);
  return {};
}

Result<ProgramOutput> read_program(std::vector<std::string> arguments) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return fail(ErrorKind::input, fmt::format("pipe2: {}", std::strerror(errno)), arguments[0]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  const auto child = start(arguments, &actions, {});
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  ProgramOutput output;
  if (child) output.text = read_all(ends[0]);
  ::close(ends[0]);
  FORESHARD_TRY(child);
  const auto succeeded = wait_for(*child, arguments[0], {});
  FORESHARD_TRY(succeeded);
  output.succeeded = *succeeded;
  return output;
}

}  // namespace foreshard::cli
