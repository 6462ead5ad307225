// Every index once, on any number of threads, in calls one after the other.
#include "sim/parallel/workers.hpp"

#include <numeric>
#include <vector>

#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

TEST_CASE("workers do each index once and are done when the call ends") {
  for (const unsigned threads : {0U, 1U, 2U, 5U}) {
    CAPTURE(threads);
    Workers workers(threads);
    std::vector<int> calls(300);
    int expected = 0;
    for (std::uint32_t call = 0; call < 3000; ++call) {
      const std::uint32_t count = call % 7 == 0 ? 0 : call % 300;
      workers.for_each(count, [&](std::size_t i) { ++calls[i]; });
      expected += static_cast<int>(count);
      if (call % 100 == 0) REQUIRE(std::accumulate(calls.begin(), calls.end(), 0) == expected);
    }
    CHECK(std::accumulate(calls.begin(), calls.end(), 0) == expected);
    CHECK(calls[0] >= calls[1]);
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

}  // namespace
}  // namespace foreshard::sim
