// What an engine keeps of its streams, against the plain queues that it stands for.
#include <array>
#include <deque>
#include <random>
#include <tuple>
#include <utility>

#include "sim/engine/issue_times.hpp"
#include "sim/engine/recent_times.hpp"
#include "sim/engine/small_vector.hpp"
#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

constexpr int kPushes = 20'000;

TEST_CASE("issue times come off in the order and to the nanosecond in which they were put on") {
  // Pauses of more than 2^32 ns are kept in another way; the limit itself and its neighbours are tried.
  constexpr std::array<std::int64_t, 6> kPauses{0, 1, 0xfffffffe, 0xffffffff, 0x100000000, 3'600'000'000'000};
  for (unsigned seed = 0; seed < 8; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    std::deque<std::int64_t> expected;
    IssueTimes times;
    std::int64_t now = -5;
    for (int i = 0; i < kPushes; ++i) {
      now += random() % 50 == 0 ? kPauses[random() % kPauses.size()] : static_cast<std::int64_t>(random() % 20'000);
      times.push(now);
      expected.push_back(now);
      // Runs full, to the least and to some length between.
      const std::size_t keep = i % 4000 < 1100 ? 1050 : random() % 3;
      while (expected.size() > keep) {
        REQUIRE(times.front() == expected.front());
        times.pop();
        expected.pop_front();
      }
      if (!expected.empty()) REQUIRE(times.front() == expected.front());
    }
  }
}

TEST_CASE("issue times go back to where they were marked, whatever came and went since") {
  for (unsigned seed = 0; seed < 8; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    std::deque<std::int64_t> expected;
    IssueTimes times;
    std::int64_t now = 0;
    const auto go_on = [&](unsigned changes) {
      for (unsigned i = 0; i < changes; ++i) {
        if (random() % 2 == 0 || expected.empty()) {
          now += random() % 20 == 0 ? 0x100000000 : static_cast<std::int64_t>(random() % 20'000);
          times.push(now);
          expected.push_back(now);
        } else {
          times.pop();
          expected.pop_front();
        }
        if (!expected.empty()) REQUIRE(times.front() == expected.front());
      }
    };
    for (int round = 0; round < 400; ++round) {
      go_on(static_cast<unsigned>(random() % 60));
      IssueTimes::Mark mark;
      times.mark(mark);
      const auto marked = std::pair(expected, now);
      for (auto back = random() % 3; back > 0; --back) {
        go_on(static_cast<unsigned>(random() % 60));
        times.rewind(mark);
        std::tie(expected, now) = marked;
      }
      std::deque<std::int64_t> all;
      times.each([&](std::int64_t time) { all.push_back(time); });
      REQUIRE((all == expected));  // not taken apart: it would print them
    }
  }
}

TEST_CASE("recent times are there by place, however many there are") {
  std::mt19937 random(1);
  std::deque<std::int64_t> expected;
  RecentTimes times;
  for (int i = 0; i < kPushes; ++i) {
    times.push(7 * i);
    expected.push_back(7 * i);
    const std::size_t keep = i % 1000 < 20 ? 40 : random() % 6;
    while (expected.size() > keep) {
      times.pop();
      expected.pop_front();
    }
    REQUIRE(times.end() - times.begin() == expected.size());
    for (std::uint32_t k = 0; k < expected.size(); ++k) REQUIRE(times.of(times.begin() + k) == expected[k]);
  }
}

TEST_CASE("a small vector keeps its elements when it grows beyond those inside it") {
  SmallVector<std::vector<int>, 3> vector;
  for (int i = 0; i < 20; ++i) {
    vector.push_back({i});
    REQUIRE(vector.size() == static_cast<std::size_t>(i) + 1);
    for (int k = 0; k <= i; ++k) REQUIRE((vector[static_cast<std::size_t>(k)] == std::vector<int>{k}));
  }
  SmallVector<std::vector<int>, 3> copy;
  for (const std::size_t size : {std::size_t{2}, std::size_t{20}, std::size_t{1}}) {
    vector.resize(size);
    copy = vector;
    CHECK(std::equal(copy.begin(), copy.end(), vector.begin(), vector.end()));
  }
  vector.clear();
  CHECK(vector.empty());
  CHECK(vector.begin() == vector.end());
}

}  // namespace
}  // namespace foreshard::sim
