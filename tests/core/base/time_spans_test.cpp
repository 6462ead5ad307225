// Stretches of time: joined, cut, and laid over one another.
#include "core/base/time_spans.hpp"

#include <random>

#include "tests/catch.hpp"

namespace foreshard {
namespace {

TimeSpans spans(std::initializer_list<std::pair<std::int64_t, std::int64_t>> of) {
  TimeSpans out;
  for (const auto& [begin, end] : of) out.emplace_back(Nanoseconds{begin}, Nanoseconds{end});
  return out;
}

TEST_CASE("spans that touch or overlap are one") {
  CHECK(united(spans({{5, 7}, {0, 2}, {2, 3}, {6, 10}, {12, 12}})) == spans({{0, 3}, {5, 10}, {12, 12}}));
  CHECK(length(united(spans({{0, 4}, {1, 2}}))).count == 4);
}

TEST_CASE("what is cut out of spans, and what two of them share, is what each instant says") {
  std::mt19937 random(3);
  const auto draw = [&] {
    TimeSpans out;
    for (int i = 0; i < 6; ++i) {
      const auto begin = static_cast<std::int64_t>(random() % 50);
      out.emplace_back(Nanoseconds{begin}, Nanoseconds{begin + static_cast<std::int64_t>(random() % 9)});
    }
    return united(out);
  };
  const auto in = [](const TimeSpans& of, std::int64_t at) {
    return std::any_of(of.begin(), of.end(),
                       [&](const TimeSpan& span) { return span.first.count <= at && at < span.second.count; });
  };
  for (int round = 0; round < 200; ++round) {
    const TimeSpans a = draw(), b = draw();
    const auto from = static_cast<std::int64_t>(random() % 60), to = from + static_cast<std::int64_t>(random() % 30);
    std::int64_t cut = 0, both = 0;
    for (std::int64_t at = 0; at < 100; ++at) {
      cut += in(a, at) && from <= at && at < to ? 1 : 0;
      both += in(a, at) && in(b, at) ? 1 : 0;
    }
    CHECK(covered(a, {from}, {to}).count == cut);
    CHECK(length(within(a, {from}, {to})).count == cut);
    CHECK(overlap(a, b).count == both);
    CHECK(overlap(b, a).count == both);
  }
}

}  // namespace
}  // namespace foreshard
