// Growth of reserved memory in runs small enough to check by hand.
#include "core/explain/growth.hpp"

#include "tests/catch.hpp"
#include "tests/core/explain/small_run.hpp"

namespace foreshard {
namespace {

using test::M;
using test::SmallRun;

Growth growth_of(const SmallRun& r) {
  const auto growth = explain_growth(r.run);
  REQUIRE(growth);
  CHECK(growth->odd_events == 0);
  return *growth;
}

TEST_CASE("each segment has its step, its request and what is never used of it", "[explain][growth]") {
  SmallRun r;
  r.segment(0, 20 * M).alloc(0, 20 * M, 20 * M);  // before the first step
  r.step().segment(100 * M, 30 * M).alloc(100 * M, 30 * M, 30 * M).free(100 * M);
  r.step().segment(200 * M, 40 * M).alloc(200 * M, 40 * M, 40 * M).free(200 * M);
  r.step().alloc(200 * M, 35 * M, 35 * M).free(200 * M);
  const Growth growth = growth_of(r);
  REQUIRE(growth.segments.size() == 3);
  CHECK(growth.segments[0].step == -1);
  CHECK(growth.segments[1].step == 0);
  CHECK(growth.segments[2].step == 1);
  CHECK(growth.segments[2].request == BlockId{2});
  CHECK(growth.segments[1].unused == 30 * M);
  CHECK(growth.segments[2].unused == 0);
  REQUIRE(growth.steps.size() == 3);
  CHECK(growth.steps[2].step == 1);
  CHECK(growth.steps[2].reserved == 90 * M);
  CHECK(growth.steps[2].segments == std::vector<std::size_t>{2});
  CHECK(growth.reserved == 90 * M);
  CHECK(growth.most_used.step == 1);
  CHECK(growth.most_used.allocated == 60 * M);
  CHECK(growth.retries.empty());
}

TEST_CASE("a request that is served once segments went back is a retry, with its time", "[explain][growth]") {
  SmallRun r;
  r.step().segment(0, 30 * M).alloc(0, 30 * M, 30 * M).free(0);
  r.step().segment_free(0, 30 * M).segment(100 * M, 40 * M).alloc(100 * M, 40 * M, 40 * M);
  const Growth growth = growth_of(r);
  REQUIRE(growth.retries.size() == 1);
  const GrowthRetry& retry = growth.retries[0];
  CHECK(retry.step == 1);
  CHECK(retry.request == BlockId{1});
  CHECK(retry.requested == 40 * M);
  CHECK(retry.released == 1);
  CHECK(retry.released_bytes == 30 * M);
  CHECK(retry.made == 1);
  CHECK_FALSE(retry.failed);
  CHECK(retry.took.all() == Nanoseconds::from_us(3));  // an entry a microsecond
  CHECK(growth.segments[0].released == 1);
  CHECK_FALSE(growth.segments[1].released);
}

TEST_CASE("what a retry takes has parts: until its first cudaFree, that one, and the rest", "[explain][growth]") {
  SmallRun r;
  r.step().segment(0, 30 * M).alloc(0, 30 * M, 30 * M).segment(50 * M, 30 * M).alloc(50 * M, 30 * M, 30 * M);
  r.segment(100 * M, 30 * M).alloc(100 * M, 30 * M, 30 * M).free(0).free(50 * M).free(100 * M);
  r.segment_free(0, 30 * M).segment_free(50 * M, 30 * M).segment_free(100 * M, 30 * M);
  r.segment(200 * M, 80 * M).alloc(200 * M, 80 * M, 80 * M);
  const Growth growth = growth_of(r);
  REQUIRE(growth.retries.size() == 1);
  const RetryPrice& took = growth.retries[0].took;  // an entry a microsecond
  CHECK(took.before == Nanoseconds::from_us(1));
  CHECK(took.wait == Nanoseconds::from_us(1));
  CHECK(took.rest == Nanoseconds::from_us(3));
  CHECK(took.all() == Nanoseconds::from_us(5));
}

TEST_CASE("segments that go back before an out of memory are a retry that failed", "[explain][growth]") {
  SmallRun r;
  r.step().segment(0, 30 * M).alloc(0, 30 * M, 30 * M).free(0);
  r.step().segment_free(0, 30 * M).oom(90 * M, 60 * M);
  const Growth growth = growth_of(r);
  REQUIRE(growth.retries.size() == 1);
  CHECK(growth.retries[0].failed);
  CHECK(growth.retries[0].requested == 90 * M);
}

TEST_CASE("empty_cache is no retry", "[explain][growth]") {
  SmallRun r;
  r.segment(200 * M, 20 * M).alloc(200 * M, 20 * M, 20 * M);
  r.step().segment(0, 30 * M).alloc(0, 30 * M, 30 * M).free(0);
  r.step().segment_free(0, 30 * M).free(200 * M).alloc(200 * M, 20 * M, 20 * M);
  CHECK(growth_of(r).retries.empty());
}

TEST_CASE("what is free in the middle of a segment counts", "[explain][growth]") {
  SmallRun r;
  r.step().segment(0, 60 * M).alloc(0, 10 * M, 10 * M).alloc(10 * M, 20 * M, 20 * M).alloc(30 * M, 30 * M, 30 * M);
  r.free(10 * M);
  r.step().segment(100 * M, 50 * M).alloc(100 * M, 50 * M, 50 * M);
  const Growth growth = growth_of(r);
  CHECK(growth.segments[0].unused == 20 * M);
}

TEST_CASE("a run without a memory record is refused", "[explain][growth]") {
  const auto growth = explain_growth(Run{});
  REQUIRE_FALSE(growth);
  CHECK(growth.error().kind == ErrorKind::input);
}

}  // namespace
}  // namespace foreshard
