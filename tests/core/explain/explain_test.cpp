// Parts, moments and requests on runs small enough to check by hand.
#include <algorithm>

#include "core/explain/explanation.hpp"
#include "core/run/run_names.hpp"
#include "tests/catch.hpp"
#include "tests/core/explain/small_run.hpp"

namespace foreshard {
namespace {

using test::kBase;
using test::SmallRun;

using test::M;

/// Compute: a segment of 20 MiB with blocks at 0 and 10 MiB; copy-in: one of 40 MiB, used once and idle.
SmallRun two_streams() {
  SmallRun r;
  r.segment(0, 20 * M).alloc(0, 4 * M - 100, 4 * M);                                                   // 0, 1
  r.segment(100 * M, 40 * M, 1).alloc(100 * M, 40 * M, 40 * M, MemoryCategory::gather_buffers, 1, 1);  // 2, 3
  r.alloc(10 * M, 2 * M, 2 * M, MemoryCategory::gradients, 2);                                         // 4
  r.free(100 * M);                                                                                     // 5, 6
  return r;
}

TEST_CASE("every part of a small run by hand", "[explain]") {
  const auto series = gap_series(two_streams().run);
  REQUIRE(series);
  REQUIRE(series->size() == 7);
  CHECK((*series)[0] == MemoryParts{.soft = 20 * M});
  CHECK((*series)[1] == MemoryParts{.requested = 4 * M - 100, .rounding = 100, .hard = 16 * M});
  CHECK((*series)[2] == MemoryParts{.requested = 4 * M - 100, .rounding = 100, .hard = 16 * M, .soft = 40 * M});
  CHECK((*series)[4] == MemoryParts{.requested = 46 * M - 100, .rounding = 100, .hard = 14 * M});
  // The copy-in stream asked last, so its idle segment is soft; once the compute stream asks it is stream's.
  CHECK((*series)[6] == MemoryParts{.requested = 6 * M - 100, .rounding = 100, .hard = 14 * M, .soft = 40 * M});
  SmallRun more = two_streams();
  more.segment(200 * M, 20 * M).alloc(200 * M, 20 * M, 20 * M);
  CHECK(gap_series(more.run)->back() ==
        MemoryParts{.requested = 26 * M - 100, .rounding = 100, .hard = 14 * M, .stream = 40 * M});
}

TEST_CASE("a free waits only until its event, and not when it comes back in the same call", "[explain]") {
  SmallRun r;
  r.segment(0, 20 * M).alloc(0, 20 * M, 20 * M, MemoryCategory::gather_buffers, 1).free(0, true);
  r.segment(100 * M, 20 * M).alloc(100 * M, 20 * M, 20 * M, MemoryCategory::gather_buffers, 2);
  r.back(0).free(100 * M);
  const auto e = explain(r.run, {});
  REQUIRE(e);
  CHECK(e->pending_free_peak == 20 * M);
  CHECK(e->peaks.active == 40 * M);
  CHECK(e->peaks.allocated == 20 * M);
  CHECK(e->peaks.requested == 40 * M);
  CHECK(e->gap_peak == 40 * M);
  REQUIRE(e->pending_peak.pending.size() == 1);
  const HeldBlock& held = e->pending_peak.pending.front();
  CHECK(held.block == BlockId{0});
  CHECK(held.made == Nanoseconds::from_us(1));
  CHECK(held.freed == Nanoseconds::from_us(2));
  CHECK(held.back == Nanoseconds::from_us(5));
  CHECK(held.waits_for_name == "all-gather");
}

TEST_CASE("a moment says who holds what", "[explain]") {
  const auto e = explain(two_streams().run, {.largest = 2});
  REQUIRE(e);
  CHECK(e->peaks.reserved == 60 * M);
  const Moment& moment = e->reserved_peak;
  CHECK(moment.at.event == 4);
  const auto alone = explain_reserved_peak(two_streams().run, {.largest = 2});
  REQUIRE(alone);
  CHECK(alone->at.event == 4);
  CHECK(alone->at.parts == moment.at.parts);
  CHECK(alone->categories.size() == 3);
  CHECK(alone->largest.size() == moment.largest.size());
  CHECK_FALSE(explain_reserved_peak(Run(), {}));
  REQUIRE(moment.categories.size() == 3);
  CHECK(moment.categories[0].key == MemoryCategory::gather_buffers);
  CHECK(moment.categories[0].live == 40 * M);
  CHECK(moment.units[0].key == UnitId{1});
  REQUIRE(moment.streams.size() == 2);
  CHECK(moment.streams[0].name == "compute");
  CHECK(moment.streams[0].live == 6 * M);
  CHECK(moment.streams[0].free == 14 * M);
  CHECK(moment.streams[1].reserved() == 40 * M);
  REQUIRE(moment.largest.size() == 2);
  CHECK(moment.largest[0].size == 40 * M);
  CHECK(moment.largest_free == 8 * M);
}

TEST_CASE("a block older than the recording has the stack that the final segments hold", "[explain]") {
  SmallRun small;
  small.alloc(1 * M, 1 * M, 1 * M);
  const StackId older = small.run.stacks.stack(small.run.stacks.frame("a.py", 1, "f"), {});
  const StackId seen = small.run.stacks.stack(small.run.stacks.frame("b.py", 2, "g"), {});
  small.run.blocks[0].stack = seen;
  SnapshotSegment segment;
  segment.address = kBase;
  segment.total_size = 20 * M;
  segment.blocks = {{kBase, 1 * M, 1 * M, BlockState::live, older},
                    {kBase + 1 * M, 1 * M, 1 * M, BlockState::live, older},
                    {kBase + 2 * M, 18 * M, 0, BlockState::inactive}};
  small.run.segments = {segment};
  const auto e = explain(small.run, {.whole_run = true});
  REQUIRE(e);
  REQUIRE(e->reserved_peak.largest.size() == 2);
  CHECK_FALSE(e->reserved_peak.largest[0].block.valid());
  CHECK(e->reserved_peak.largest[0].stack == older);
  CHECK(e->reserved_peak.largest[1].stack == seen);
}

TEST_CASE("a block older than the recording has no category", "[explain]") {
  SmallRun small;
  small.alloc(1 * M, 1 * M, 1 * M);
  SnapshotSegment segment;
  segment.address = kBase;
  segment.total_size = 20 * M;
  segment.blocks = {{kBase, 1 * M, 1 * M, BlockState::live, {}},
                    {kBase + 1 * M, 1 * M, 1 * M, BlockState::live, {}},
                    {kBase + 2 * M, 18 * M, 0, BlockState::inactive}};
  small.run.segments = {segment};
  const auto e = explain(small.run, {.whole_run = true});
  REQUIRE(e);
  REQUIRE(e->reserved_peak.categories.size() == 2);
  const auto& categories = e->reserved_peak.categories;
  CHECK(std::count_if(categories.begin(), categories.end(), [](const auto& share) { return !share.key; }) == 1);
  CHECK(category_name({}) == "before_recording");
  CHECK(category_name(MemoryCategory::other) == "other");
}

TEST_CASE("a peak that is in no phase is between them", "[explain]") {
  SmallRun r;
  r.segment(0, 40 * M);
  r.step();
  const auto phase = [&](const char* name, Bytes at, Bytes size) {
    const Nanoseconds start = r.now();
    r.alloc(at, size, size).free(at);
    r.run.phases.push_back({0, Recording::run, name, start, r.now()});
  };
  phase("forward", 0, 4 * M);
  r.alloc(10 * M, 8 * M, 8 * M).free(10 * M);
  phase("backward", 0, 6 * M);
  const auto e = explain(r.run, {});
  REQUIRE(e);
  REQUIRE(e->phases.size() == 3);
  CHECK(e->phases[2].phase.empty());
  CHECK(e->phases[2].peaks.allocated == 8 * M);
  CHECK(e->peaks.allocated == 8 * M);
  // Where some phase has it, there is no such row.
  phase("optimizer", 0, 9 * M);
  CHECK(explain(r.run, {})->phases.size() == 3);
  CHECK(explain(r.run, {})->phases[2].phase == "optimizer");
}

TEST_CASE("steps, the state they begin with, and moments asked for", "[explain]") {
  SmallRun r;
  r.segment(0, 40 * M).alloc(0, 30 * M, 30 * M);
  r.step().free(0).alloc(0, 4 * M, 4 * M);
  r.step().alloc(10 * M, 2 * M, 2 * M).free(10 * M);
  const auto last = explain(r.run, {});
  REQUIRE(last);
  CHECK(last->step == 1);
  CHECK(last->peaks.allocated == 6 * M);
  CHECK(last->before_steps.allocated == 30 * M);
  REQUIRE(last->steps.size() == 2);
  CHECK(last->steps[0].peaks.allocated == 30 * M);  // what it begins with counts
  CHECK(explain(r.run, {.whole_run = true})->peaks.allocated == 30 * M);
  const auto at = explain(r.run, {.at = Nanoseconds::from_us(1)});
  REQUIRE(at);
  REQUIRE(at->asked);
  CHECK(at->asked->at.parts.allocated() == 4 * M);
  const auto none = explain(r.run, {.step = 7});
  REQUIRE_FALSE(none);
  CHECK(none.error().kind == ErrorKind::usage);
  CHECK(none.error().what == "the run's memory record has no step 7");
  CHECK(none.error().hint == "it has steps 0 to 1");
  CHECK_FALSE(explain(Run{}, {}));
  r.run.steps.front().end = r.run.steps.front().start = r.run.allocator.front().time;
  r.run.steps.front().start -= Nanoseconds{5};
  r.run.steps.back().start = r.run.steps.front().end;
  CHECK(explain(r.run, {.step = 0}).error().what == "the memory record begins after the step that is asked for");
}

TEST_CASE("pages of an expandable segment are idle one by one", "[explain]") {
  SmallRun r;
  r.run.allocator.push_back({AllocatorAction::segment_map, kBase, 60 * M, StreamId{0}, {0}, {}});
  r.alloc(0, 30 * M, 30 * M).alloc(30 * M, 20 * M, 20 * M);
  r.free(0);
  // Free: 0 to 30, of which the page 0 to 20 is whole; and 50 to 60, which is in the page of the block in use.
  CHECK(gap_series(r.run)->back() == MemoryParts{.requested = 20 * M, .hard = 20 * M, .soft = 20 * M});
  r.run.allocator.push_back({AllocatorAction::segment_unmap, kBase, 20 * M, StreamId{0}, r.now(), {}});
  CHECK(gap_series(r.run)->back() == MemoryParts{.requested = 20 * M, .hard = 20 * M});
}

TEST_CASE("downsampling keeps the highest point of each stretch", "[explain]") {
  std::vector<GapPoint> series(1000);
  for (std::size_t i = 0; i < series.size(); ++i) series[i] = {i, {}, {.requested = i == 501 ? 100u : 1u}};
  const auto few = downsample(series, 10);
  REQUIRE(few.size() == 10);
  CHECK(few[5].event == 501);
  CHECK(few[0].event == 0);
  CHECK(downsample(series, 2000).size() == 1000);
}

}  // namespace
}  // namespace foreshard
