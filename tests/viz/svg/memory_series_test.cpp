// Memory over time: sums, peaks, what waits for events, and what was there before the recording.

#include "viz/scene/memory_series.hpp"

#include <algorithm>
#include <numeric>

#include "tests/catch.hpp"
#include "tests/viz/svg/drawn_runs.hpp"

using namespace foreshard;
using namespace foreshard::viz;

namespace {

std::int64_t sum(const MemoryState& state) {
  return std::accumulate(state.category.begin(), state.category.end(), std::int64_t{0});
}

MemorySeries series_of(const Run& run, const WindowRequest& request, std::size_t columns) {
  const auto window = choose_window(run, request);
  REQUIRE(window);
  REQUIRE(window->memory);
  return read_memory(run, *window->memory, *window, columns);
}

constexpr auto kGi = static_cast<std::int64_t>(kGiB);

}  // namespace

TEST_CASE("the categories of every column add up to the allocated line") {
  for (const std::size_t columns : {1U, 3U, 17U, 400U}) {
    const MemorySeries series = series_of(small_run(), {.all = true}, columns);
    CHECK(sum(series.begin) == series.begin.allocated);
    for (const MemoryColumn& column : series.columns) {
      CHECK(sum(column.highest) == column.highest.allocated);
      CHECK(sum(column.end) == column.end.allocated);
      CHECK(column.highest.active >= column.highest.allocated);
      CHECK(column.at < columns);
    }
  }
}

TEST_CASE("no column hides a peak, however few there are") {
  for (const std::size_t columns : {1U, 2U, 1000U}) {
    const MemorySeries series = series_of(small_run(), {.step = 1}, columns);
    CHECK(series.allocated.bytes == 5 * kGi);
    CHECK(series.active.bytes == 6 * kGi);
    CHECK(series.reserved.bytes == 8 * kGi);
    CHECK(series.allocated.time == us(2000));
    CHECK(series.active.time == us(4000));
    std::int64_t drawn = 0;
    for (const MemoryColumn& column : series.columns) drawn = std::max(drawn, column.highest.allocated);
    CHECK(drawn == 5 * kGi);
  }
}

TEST_CASE("a freed block that waits for an event is active and not allocated") {
  const MemorySeries series = series_of(small_run(), {.step = 0, .from = us(3100), .to = us(3900)}, 10);
  CHECK(series.begin.allocated == 4 * kGi);
  CHECK(series.begin.active == 5 * kGi);
  CHECK(series.begin.requested == 5 * kGi - 300);
  CHECK(series.has_pending());
}

TEST_CASE("what was there before the first event comes from the final state") {
  Run run = small_run();
  SnapshotSegment segment;
  segment.total_size = 10 * kGiB;     // 8 GiB of it was seen being reserved
  segment.allocated_size = 3 * kGiB;  // 2 GiB of it was seen being allocated
  segment.active_size = 3 * kGiB;
  segment.requested_size = 3 * kGiB - 100;
  run.segments.push_back(segment);
  const MemorySeries series = series_of(run, {.step = 0}, 100);
  CHECK(series.reserved.bytes == 10 * kGi);
  CHECK(series.allocated.bytes == 6 * kGi);
  CHECK(series.begin.category[static_cast<std::size_t>(MemoryCategory::other)] == kGi);
}

TEST_CASE("a step's peaks are its own, also where the picture goes on into the next") {
  Run run = small_run();
  MemoryScript memory(run);
  memory.alloc(us(10900), 9 * kGiB, MemoryCategory::temporaries);  // in step 1
  std::stable_sort(run.allocator.begin(), run.allocator.end(),
                   [](const AllocatorRecord& a, const AllocatorRecord& b) { return a.time < b.time; });
  const MemorySeries series = series_of(run, {.step = 0, .to = us(11000)}, 50);
  CHECK(series.allocated.bytes == 5 * kGi);
  CHECK(series.top == 12 * kGi);
}

TEST_CASE("releases and running out of memory are marked") {
  Run run = small_run();
  MemoryScript memory(run);
  memory.segment(AllocatorAction::segment_free, us(20100), kGiB);
  memory.segment(AllocatorAction::segment_free, us(20100), kGiB);
  memory.segment(AllocatorAction::oom, us(21000), 3 * kGiB);
  const MemorySeries series = series_of(run, {}, 100);  // the step in which it happened
  REQUIRE(series.marks.size() == 2);
  CHECK(series.marks[0].count == 2);
  CHECK(series.marks[0].bytes == 2 * kGiB);
  CHECK(series.marks[1].kind == MemoryMark::Kind::out_of_memory);
  CHECK(series.marks[1].bytes == 3 * kGiB);
}
