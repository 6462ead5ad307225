// Requests that found no memory: the numbers, the reasons, and what would have helped.
#include "core/explain/explanation.hpp"
#include "tests/catch.hpp"
#include "tests/core/explain/small_run.hpp"

namespace foreshard {
namespace {

using test::SmallRun;

using test::M;

FailedRequest only_failure(const SmallRun& r) {
  const auto e = explain(r.run, {});
  REQUIRE(e);
  REQUIRE(e->failures.size() == 1);
  return e->failures.front();
}

bool says(const std::vector<std::string>& sentences, const std::string& part) {
  for (const std::string& sentence : sentences)
    if (sentence.find(part) != std::string::npos) return true;
  return false;
}

TEST_CASE("free pieces that together would do: expandable segments", "[explain][oom]") {
  SmallRun r;
  r.segment(0, 100 * M).alloc(0, 40 * M, 40 * M).alloc(40 * M, 20 * M, 20 * M).free(0);
  r.oom(60 * M, 10 * M);
  const FailedRequest failed = only_failure(r);
  CHECK(failed.size == 60 * M);
  CHECK(failed.segment == 60 * M);
  CHECK(failed.free_here == 80 * M);
  CHECK(failed.largest_here == 40 * M);
  CHECK(failed.device_free == 10 * M);
  CHECK(failed.parts.hard == 80 * M);
  CHECK(says(failed.why, "80 MiB are free there in 2 pieces, the largest 40 MiB"));
  CHECK(says(failed.why, "the driver was asked for 60 MiB and had 10 MiB free"));
  CHECK(says(failed.remedies, "expandable_segments:True"));
}

TEST_CASE("memory of another stream would have done", "[explain][oom]") {
  SmallRun r;
  r.segment(0, 100 * M, 1).alloc(0, 100 * M, 100 * M, MemoryCategory::gather_buffers, 1, 1).free(0);
  r.segment(1024 * M, 20 * M).alloc(1024 * M, 20 * M, 20 * M).oom(60 * M, 0);
  const FailedRequest failed = only_failure(r);
  CHECK(failed.free_elsewhere == 100 * M);
  CHECK(says(failed.why, "100 MiB are free on other streams"));
  CHECK(says(failed.remedies, "allocating on one stream"));
}

TEST_CASE("pending blocks would have done", "[explain][oom]") {
  SmallRun r;
  r.segment(0, 100 * M).alloc(0, 100 * M, 100 * M, MemoryCategory::gather_buffers, 1).free(0, true).oom(60 * M, 0);
  const FailedRequest failed = only_failure(r);
  CHECK(says(failed.why, "100 MiB freed by the program wait"));
  CHECK(says(failed.remedies, "freeing in host order"));
}

TEST_CASE("a limit, a block that came free too late, and nothing at all", "[explain][oom]") {
  SmallRun limit;
  limit.segment(0, 100 * M).alloc(0, 100 * M, 100 * M).oom(60 * M, 1000 * M);
  CHECK(says(only_failure(limit).why, "a limit refused it"));
  SmallRun late;
  late.segment(0, 200 * M).alloc(0, 100 * M, 100 * M).alloc(100 * M, 1 * M, 1 * M).free(0).oom(60 * M, 0);
  CHECK(says(only_failure(late).remedies, "asking again"));
  SmallRun full;
  full.segment(0, 100 * M).alloc(0, 90 * M, 90 * M).oom(60 * M, 5 * M);
  CHECK(only_failure(full).remedies ==
        std::vector<std::string>{"nothing that is free would do: 45 MiB more are needed"});
}

TEST_CASE("the step that ran out of memory is looked at, which no record of a whole step says", "[explain][oom]") {
  SmallRun r;
  r.segment(0, 100 * M);
  r.step().alloc(0, 10 * M, 10 * M).free(0);
  r.step();
  r.run.steps.pop_back();  // what begins now does not end
  r.alloc(0, 90 * M, 90 * M).oom(60 * M, 5 * M);
  const auto e = explain(r.run, {});
  REQUIRE(e);
  CHECK(e->step == 1);
  REQUIRE(e->steps.size() == 2);
  CHECK(e->steps[0].peaks.allocated == 10 * M);
  CHECK(e->peaks.allocated == 90 * M);
  CHECK(e->failures.at(0).step == 1);
  CHECK(explain(r.run, {.step = 0})->peaks.allocated == 10 * M);
}

TEST_CASE("only the first failures are described", "[explain][oom]") {
  SmallRun r;
  r.segment(0, 100 * M).alloc(0, 100 * M, 100 * M);
  for (int i = 0; i < 100; ++i) r.oom(60 * M, 0);
  CHECK(explain(r.run, {})->failures.size() == kMaxFailures);
}

}  // namespace
}  // namespace foreshard
