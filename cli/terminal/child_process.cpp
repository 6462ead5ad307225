#include "cli/terminal/child_process.hpp"

#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>

extern char** environ;

namespace foreshard::cli {

Result<void> run_program(std::vector<std::string> arguments, const std::string& hint) {
  const std::string program = arguments.front();
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, program.c_str(), nullptr, nullptr, pointers.data(), environ);
  if (failed != 0)
    return fail(ErrorKind::input, fmt::format("{} cannot be started: {}", program, std::strerror(failed)), {}, hint);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return fail(ErrorKind::input, program + " was lost", {}, hint);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return fail(ErrorKind::input, program + " did not succeed", {}, hint);
  return {};
}

}  // namespace foreshard::cli
