// What a failed check prints.
#include "core/base/check.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "core/base/check_context.hpp"
#include "tests/catch.hpp"

namespace foreshard {
namespace {

/// Standard error of a child that fails a check within two scopes; the child must end by SIGABRT.
std::string stderr_of_failure() {
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);
    dup2(ends[1], STDERR_FILENO);
    const int step = 3;
    const CheckContext outer(
        [](const void* object) { return "step " + std::to_string(*static_cast<const int*>(object)); }, &step);
    const CheckContext inner([](const void*) -> std::string { FORESHARD_CHECK(false, "in a context"); }, nullptr);
    FORESHARD_CHECK(step == 4, "the step is another");
  }
  close(ends[1]);
  std::string text;
  std::array<char, 256> buffer{};
  for (ssize_t n = 0; (n = read(ends[0], buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), static_cast<std::size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT));
  return text;
}

TEST_CASE("scopes are told from the innermost, and left again") {
  const auto name = [](const void* object) { return std::string(static_cast<const char*>(object)); };
  CHECK(CheckContext::text().empty());
  {
    const CheckContext outer(name, "rank 0");
    CHECK(CheckContext::text() == "  at: rank 0\n");
    const CheckContext inner(name, "op 7");
    CHECK(CheckContext::text() == "  at: op 7\n  at: rank 0\n");
  }
  CHECK(CheckContext::text().empty());
}

TEST_CASE("the command is as a shell takes it") {
  const std::array<const char*, 5> words{"foreshard", "plan", "a b.db", "it's", ""};
  set_replay_command(static_cast<int>(words.size()), words.data());
  CHECK(replay_command() == R"(foreshard plan 'a b.db' 'it'\''s' '')");
  set_replay_command(0, nullptr);
}

TEST_CASE("a failed check says what failed and where, and one that fails in a context ends the process too") {
  const std::string text = stderr_of_failure();
  CHECK(text.find("the step is another\n  failed: step == 4\n") != std::string::npos);
  CHECK(text.find("check_test.cpp:") != std::string::npos);
  CHECK(text.find("in a context") != std::string::npos);
}

}  // namespace
}  // namespace foreshard
