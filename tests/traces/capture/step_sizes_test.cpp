// Which profiled step has which size, and what the times of the other sizes are.
#include "traces/capture/step_sizes.hpp"

#include "tests/catch.hpp"

using namespace foreshard;
using namespace foreshard::traces;

namespace {

/// Sizes of 100 bytes a token.
StepSizes sizes_of(const std::vector<std::uint32_t>& lengths) {
  StepSizes out;
  std::vector<std::uint32_t> known;
  for (const std::uint32_t length : lengths) {
    const auto found = static_cast<std::size_t>(std::find(known.begin(), known.end(), length) - known.begin());
    if (found == known.size()) {
      known.push_back(length);
      out.bytes.push_back(100 * Bytes{length});
    }
    out.size_of.push_back(found);
    out.steps.push_back({2, length, true});
  }
  out.differ = true;
  return out;
}

/// One kernel that grows with the length, one that does not.
StepTiming timed(std::uint64_t length) {
  StepTiming out;
  TimedSegment& segment = out.segments.emplace_back();
  for (const std::uint64_t grows : {1, 0}) {
    TimedItem& item = segment.items.emplace_back();
    item.host_before = {7};
    item.blocks = grows * length;
    item.kernel.work = {static_cast<std::int64_t>(1000 + grows * (10 * length - 1000))};
  }
  return out;
}

StepTiming seen(std::uint64_t length, std::uint32_t tiles) {
  StepTiming out = timed(length);
  out.attention = AttentionShape{2, tiles, {128}};
  return out;
}

TimesSources sources(const StepSizes& sizes, const std::vector<StepTiming>& profiled) {
  std::vector<const StepTiming*> list;
  for (const StepTiming& step : profiled) list.push_back(&step);
  return times_sources(sizes, list);
}

}  // namespace

TEST_CASE("each of many profiled steps has its size, though grids round it up") {
  std::vector<std::uint32_t> lengths;
  std::vector<StepTiming> profiled;
  for (std::uint32_t k = 0; k < 8; ++k) {
    lengths.push_back(2048 - 200 * k);
    profiled.push_back(timed(lengths.back()));
    for (TimedItem& item : profiled.back().segments[0].items)
      item.blocks += item.blocks * (k % 2) / 25;  // 4 % more of every second one
  }
  const TimesSources found = sources(sizes_of(lengths), profiled);
  REQUIRE(found.of.size() == 8);
  for (std::size_t k = 0; k < 8; ++k) {
    INFO(k);
    CHECK(found.of[k].profiled);
    CHECK(found.of[k].step == k);
  }
}

TEST_CASE("profiled steps have the sizes of their attention, or of the ratio of their grids") {
  const StepSizes sizes = sizes_of({2048, 1536, 1024, 1536});
  for (const bool attention : {true, false}) {
    const auto step = [&](std::uint32_t length) { return attention ? seen(length, length / 128) : timed(length); };
    const TimesSources found = sources(sizes, {step(1536), step(2048)});
    REQUIRE(found.of.size() == 3);
    CHECK_FALSE(found.assumed);
    CHECK(found.of[0].step == 1);
    CHECK(found.of[1].step == 0);
    CHECK(found.of[0].profiled);
    CHECK(found.of[1].profiled);
    CHECK_FALSE(found.of[2].profiled);
    CHECK(found.of[2].step == 0);
    CHECK(found.of[2].other == 1U);
    CHECK(found.size_of == std::vector<std::optional<std::size_t>>{1, 0});
    CHECK(found.of[2].size == Approx(1024.0 / 1536));
    CHECK(found.of[2].other_size == Approx(2048.0 / 1536));
  }
}

TEST_CASE("a step's times are those of a profiled step that passes its hooks, or there are none") {
  const HookPlaces trains{{Hook::zero_grad, UnitId{}}, {Hook::forward_begin, UnitId{}}};
  HookPlaces evaluates = trains;
  evaluates.insert(evaluates.begin(), {Hook::forward_begin, UnitId{}});
  StepSizes sizes = sizes_of({2048, 1024, 2048});
  sizes.size_of = {0, 1, 0};
  sizes.bytes = {2048, 2048};  // of the same activations
  sizes.hooks = {trains, evaluates};
  const auto step = [](const HookPlaces& hooks) {
    StepTiming out = timed(2048);
    out.segments.resize(hooks.size(), {});
    for (std::size_t i = 0; i < hooks.size(); ++i) out.segments[i].hook = hooks[i].first;
    return out;
  };
  const TimesSources both = sources(sizes, {step(evaluates), step(trains)});
  CHECK((both.of[0].step == 1 && both.of[0].profiled && both.of[0].same_hooks));
  CHECK((both.of[1].step == 0 && both.of[1].profiled && both.of[1].same_hooks));
  CHECK_FALSE(both.assumed);
  const TimesSources one = sources(sizes, {step(trains)});
  CHECK(one.of[0].same_hooks);
  CHECK_FALSE(one.of[1].same_hooks);
}

TEST_CASE("one profiled step without attention is taken for the most frequent size") {
  const TimesSources found = sources(sizes_of({2048, 1536, 1024, 1536}), {timed(5)});
  CHECK(found.assumed);
  CHECK(found.of[1].profiled);
  CHECK_FALSE(found.of[0].profiled);
  CHECK_FALSE(sources(sizes_of({2048, 1536, 1024}), {seen(5, 8)}).assumed);
}

TEST_CASE("a profiled step of no recorded size is placed by its grids") {
  const TimesSources found = sources(sizes_of({2048, 1024}), {seen(1024, 8), seen(1536, 12)});
  CHECK(found.size_of == std::vector<std::optional<std::size_t>>{1, std::nullopt});
  CHECK(found.of[1].profiled);
  CHECK_FALSE(found.of[0].profiled);
  CHECK(found.of[0].step == 1);
  CHECK(found.of[0].size == Approx(2048.0 / 1536));
}

TEST_CASE("of two sizes that fit a grid the ratios decide, else the larger tile") {
  const auto two_tiles = [](std::uint64_t length, std::uint32_t tiles) {
    StepTiming out = timed(length);
    out.attention = AttentionShape{2, tiles, {8, 16}};
    return out;
  };
  // 128 tiles are 2048 or 1024 tokens, 96 are 1536: of the ratio's sizes only one was recorded.
  const TimesSources found = sources(sizes_of({1536, 1024}), {two_tiles(2048, 128), two_tiles(1536, 96)});
  CHECK_FALSE(found.assumed);
  CHECK(found.of[0].profiled);
  CHECK(found.of[0].step == 1);
  CHECK_FALSE(found.of[1].profiled);
  CHECK(found.of[1].step == 1);
  CHECK(sources(sizes_of({2048, 1024, 1024}), {two_tiles(2048, 128), two_tiles(1024, 64)}).of[0].profiled);
}

TEST_CASE("between and beyond profiled sizes kernels grow one by one, else all alike") {
  const StepTiming near = timed(1536);
  const StepTiming far = timed(2048);
  TimesSource source;
  source.size = 1024.0 / 1536;
  source.other = 1;
  source.other_size = 2048.0 / 1536;
  const StepTiming scaled = scaled_timing(near, &far, source);
  CHECK(scaled.segments[0].items[0].kernel.work.count == Approx(10'240));
  CHECK(scaled.segments[0].items[1].kernel.work.count == 1000);
  CHECK(scaled.segments[0].items[1].host_before.count == 7);

  StepTiming other_ops = far;
  other_ops.segments[0].items.pop_back();
  const StepTiming alike = scaled_timing(near, &other_ops, source);
  CHECK(alike.segments[0].items[0].kernel.work.count < near.segments[0].items[0].kernel.work.count);
  CHECK(alike.segments[0].items[1].kernel.work.count < 1000);

  source.other.reset();
  CHECK(scaled_timing(near, nullptr, source).segments[0].items[1].kernel.work.count ==
        Approx(1000 * source.size).margin(1));

  // Never faster than the square: attention at most.
  StepTiming steep = far;
  steep.segments[0].items[0].kernel.work = {80'000};
  source.other = 1;
  CHECK(scaled_timing(near, &steep, source).segments[0].items[0].kernel.work.count ==
        Approx(15'360 * source.size * source.size).margin(1));
}
