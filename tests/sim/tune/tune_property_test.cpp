// On random small settings the search is never worse than the cross product of `sweep`.
#include <rapidcheck.h>

#include "sim/tune/tried_points.hpp"
#include "sim/tune/tune.hpp"
#include "tests/catch.hpp"
#include "tests/property/timed_workload.hpp"
#include "tests/sim/sweep/small_plan.hpp"

using namespace foreshard;
using namespace foreshard::sim;
using foreshard::sim::test::machine;

namespace {

/// Whether a step alone that keeps its run has the whole plan's.
bool keeps_run(WorkloadSource& source, const Settings& settings, std::optional<Bytes> limit) {
  PredictRequest request{settings, limit};
  const auto workload = source.at(settings).value();
  const auto whole = predict(*workload, machine(), request);
  request.step_alone = request.keep_run = true;
  const auto alone = predict(*workload, machine(), request);
  const auto same = [](const DeviceOpRecord& a, const DeviceOpRecord& b) {
    return a.start == b.start && a.end == b.end && a.issue == b.issue;
  };
  const std::vector<DeviceOpRecord>& ops = alone->run.device_ops;
  return alone->step_ms == whole->step_ms && ops.size() == whole->run.device_ops.size() &&
         std::equal(ops.begin(), ops.end(), whole->run.device_ops.begin(), same) &&
         alone->run.allocator.size() == whole->run.allocator.size();
}

}  // namespace

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
      if (fits(point) != Fits::surely || point.step_num_alloc_retries > 0) continue;
      if (doubts_of(point) > doubts_of(result->start.point)) continue;
      RC_ASSERT(result->best.has_value());
      RC_ASSERT(result->best->point.step_ms <= point.step_ms * (1 + kEqualSteps));
    }
  });
  CHECK(holds);
}

TEST_CASE("a point's step alone is the whole point's, whatever the settings and the memory") {
  const bool holds = rc::check("alone = whole", [] {
    const Settings wanted = foreshard::test::random_settings();
    OneWorkload source(std::make_shared<const Workload>(foreshard::test::timed_workload(
        foreshard::test::random_settings(), *rc::gen::inRange(1U, 5U), *rc::gen::element(0.0, 0.4, 3.0))));
    PointRequest request;
    const SweepPoint free = simulate_point(source, machine(), request, wanted);
    if (free.state == SweepPoint::State::ran && *rc::gen::arbitrary<bool>())
      request.memory_limit = free.peaks.reserved - *rc::gen::inRange<Bytes>(0, 4) * 2 * kMiB;
    const SweepPoint whole = simulate_point(source, machine(), request, wanted);
    request.step_alone = true;
    const SweepPoint alone = simulate_point(source, machine(), request, wanted);
    RC_ASSERT(alone.state == whole.state);
    RC_ASSERT(alone.step_ms == whole.step_ms);
    RC_ASSERT(alone.peaks == whole.peaks);
    RC_ASSERT(alone.num_alloc_retries == whole.num_alloc_retries);
    RC_ASSERT(alone.step_num_alloc_retries == whole.step_num_alloc_retries);
    RC_ASSERT(alone.not_valid == whole.not_valid);
    RC_ASSERT(alone.floor.ms() == whole.floor.ms());
    if (alone.state == SweepPoint::State::ran) RC_ASSERT(keeps_run(source, wanted, request.memory_limit));
  });
  CHECK(holds);
}
