#include "sim/parallel/for_each.hpp"

#include <atomic>
#include <stdexcept>
#include <vector>

#include "tests/catch.hpp"

using foreshard::sim::for_each;

TEST_CASE("every index once, whatever the number of threads") {
  for (const unsigned threads : {0U, 1U, 2U, 7U, 64U}) {
    INFO(threads);
    std::vector<std::atomic<int>> seen(100);
    std::size_t last = 0;
    for_each(
        seen.size(), threads, [&](std::size_t i) { seen[i].fetch_add(1); }, [&](std::size_t done) { last = done; });
    for (const auto& count : seen) CHECK(count.load() == 1);
    CHECK(last == 100);
  }
  for_each(0, 4, [](std::size_t) { throw std::logic_error("nothing to do"); });
}

TEST_CASE("an exception comes back on the calling thread and ends the rest") {
  for (const unsigned threads : {1U, 4U}) {
    std::atomic<int> ran{0};
    const auto work = [&](std::size_t i) {
      if (i == 3) throw std::runtime_error("three");
      ran.fetch_add(1);
    };
    CHECK_THROWS_AS(for_each(100'000, threads, work), std::runtime_error);
    CHECK(ran.load() < 100'000);
  }
}
