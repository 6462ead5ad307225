#include "gpu/torch_collectives/process_end.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

#include "tests/catch.hpp"

namespace foreshard::gpu {
namespace {

using namespace std::chrono_literals;

TEST_CASE("a process ends at its time with the first code, whatever its threads wait for") {
  const auto begin = std::chrono::steady_clock::now();
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::alarm(60);
    end_process_after(200ms, 14);
    end_process_after(1ms, 15);
    for (;;) ::pause();
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 14);
  CHECK(std::chrono::steady_clock::now() - begin >= 200ms);
}

}  // namespace
}  // namespace foreshard::gpu
