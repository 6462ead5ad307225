// Every index once, on any number of threads, in calls one after the other.
#include "sim/parallel/workers.hpp"

#include <sys/resource.h>

#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

TEST_CASE("workers do each index once and are done when the call ends") {
  for (const unsigned threads : {0U, 1U, 2U, 5U}) {
    CAPTURE(threads);
    Workers workers(threads);
    std::vector<int> calls(300), expected(300);
    for (std::uint32_t call = 0; call < 3000; ++call) {
      const std::uint32_t count = call % 7 == 0 ? 0 : call % 300;
      workers.for_each(count, [&](std::size_t i) { ++calls[i]; });
      for (std::uint32_t i = 0; i < count; ++i) ++expected[i];
      if (call % 100 == 0) REQUIRE(calls == expected);
    }
    CHECK(calls == expected);
  }
}

TEST_CASE("workers that sleep wake for the next call, and end without one") {
  Workers workers(3);
  for (int call = 0; call < 3; ++call) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::vector<int> calls(64);
    workers.for_each(64, [&](std::size_t i) { ++calls[i]; });
    CHECK(calls == std::vector<int>(64, 1));
  }
}

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)  // which need memory for a thread themselves

TEST_CASE("where no thread can start, the owner's does all") {
  rlimit limit{};
  REQUIRE(getrlimit(RLIMIT_AS, &limit) == 0);
  const rlimit no_more{1, limit.rlim_max};  // bytes: no stack of a thread fits
  constexpr unsigned kMoreThanStacksKept = 64;
  REQUIRE(setrlimit(RLIMIT_AS, &no_more) == 0);
  std::optional<Workers> workers(std::in_place, kMoreThanStacksKept);
  REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
  std::vector<int> calls(64);
  workers->for_each(64, [&](std::size_t i) { ++calls[i]; });
  CHECK(calls == std::vector<int>(64, 1));
  workers.reset();
}

#endif

}  // namespace
}  // namespace foreshard::sim
