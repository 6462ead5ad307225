// On random small settings the search is never worse than the cross product of `sweep`.
#include <rapidcheck.h>

#include "sim/tune/tune.hpp"
#include "tests/catch.hpp"
#include "tests/property/timed_workload.hpp"
#include "tests/sim/sweep/small_plan.hpp"

using namespace foreshard;
using namespace foreshard::sim;
using foreshard::sim::test::machine;

TEST_CASE("the best of a search is never worse than sweep's best, within any memory") {
  const bool holds = rc::check("tune <= sweep", [] {
    const Settings start = foreshard::test::random_settings();
    const Settings recorded = foreshard::test::random_settings();
    OneWorkload source(std::make_shared<const Workload>(
        foreshard::test::timed_workload(recorded, *rc::gen::inRange(1U, 5U), *rc::gen::element(0.0, 3.0))));
    const auto base = simulate_point(source, machine(), {}, start);
    if (base.state != SweepPoint::State::ran) return;
    TuneRequest request;
    request.start = start;
    request.memory_limit = base.peaks.reserved + *rc::gen::inRange<Bytes>(0, 8) * kMiB;
    request.points = 80;
    const auto result = tune(source, machine(), request);
    RC_ASSERT(result);
    const auto points = sweep(source, machine(), {start, usual_ranges(), request.memory_limit, 1});
    RC_ASSERT(points);
    for (const SweepPoint& point : *points) {
      if (fits(point) != Fits::surely || point.not_valid.size() > result->start.point.not_valid.size()) continue;
      RC_ASSERT(result->best.has_value());
      RC_ASSERT(result->best->point.step_ms <= point.step_ms);
    }
  });
  CHECK(holds);
}
