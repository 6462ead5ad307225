// The search on small plans: its answer is what `plan` says, on any number of threads, within its limits.
#include "sim/tune/tune.hpp"

#include <algorithm>

#include "sim/predict/predict.hpp"
#include "tests/catch.hpp"
#include "tests/property/timed_workload.hpp"
#include "tests/sim/sweep/small_plan.hpp"

using namespace foreshard;
using namespace foreshard::sim;
using foreshard::sim::test::base;
using foreshard::sim::test::machine;

namespace {

std::shared_ptr<const Workload> timed() {
  return std::make_shared<const Workload>(foreshard::test::timed_workload(base(), 6, 3.0));
}

TuneResult tuned(const TuneRequest& request, const std::shared_ptr<const Workload>& workload = timed()) {
  OneWorkload source(workload);
  auto found = tune(source, machine(), request);
  INFO((found ? std::string() : found.error().text()));
  REQUIRE(found);
  return std::move(*found);
}

TuneRequest request() {
  TuneRequest out;
  out.start = base();
  out.start.unshard_async = true;  // without prefetch lists nothing overlaps
  return out;
}

}  // namespace

TEST_CASE("the best and the next ones are what plan says, and the best beats what simpler searches find") {
  const TuneResult result = tuned(request());
  REQUIRE(result.best);
  REQUIRE(result.uniform);
  REQUIRE(result.greedy);
  CHECK(result.best->point.step_ms < result.start.point.step_ms);
  CHECK(result.best->point.step_ms <= result.uniform->point.step_ms);
  CHECK(result.best->point.step_ms <= result.greedy->point.step_ms);
  CHECK(result.best->point.step_ms >= result.bound_ms);
  CHECK(result.bound_ms > 0);
  CHECK(result.end == TuneEnd::nothing_helps);
  CHECK_FALSE(result.waits.headline.empty());
  std::vector<TunedPoint> all = result.next;
  all.push_back(*result.best);
  for (const TunedPoint& one : all) {
    const auto p = predict(*timed(), machine(), {one.point.settings, {}, 4});
    REQUIRE(p);
    CHECK(p->step_ms == one.point.step_ms);
    CHECK(p->peaks == one.point.peaks);
    CHECK(p->difference == one.point.difference);
    CHECK(p->not_valid == one.point.not_valid);
    CHECK(p->floor.ms() == one.point.floor.ms());
    CHECK(p->floor.ms() <= p->step_ms);
  }
}

TEST_CASE("a result keeps every point that was tried, and its front") {
  const TuneResult result = tuned(request());
  REQUIRE(result.points.size() == result.tried);
  CHECK(result.points.front().point.settings == request().start);
  CHECK(result.points.front().phrase == "as asked for");
  REQUIRE_FALSE(result.front.empty());
  for (std::size_t i = 1; i < result.front.size(); ++i) {  // the fastest first, each next one slower and smaller
    const SweepPoint& a = result.points[result.front[i - 1]].point;
    const SweepPoint& b = result.points[result.front[i]].point;
    CHECK(a.step_ms < b.step_ms);
    CHECK(a.peaks.reserved > b.peaks.reserved);
  }
  CHECK(result.best->point.step_ms <= result.points[result.front.front()].point.step_ms * (1 + kEqualSteps));
  for (const std::size_t i : result.no_part)
    CHECK(std::find(result.front.begin(), result.front.end(), i) == result.front.end());
  REQUIRE(result.best->plan);
  CHECK(result.best->plan->step_ms == result.best->point.step_ms);
}

TEST_CASE("the answer says what a CUDA graph would bring, where it was not allowed") {
  const TuneResult without = tuned(request());
  REQUIRE(without.with_cuda_graph);
  CHECK(without.with_cuda_graph->point.settings.cuda_graph.has_value());
  TuneRequest allowed = request();
  allowed.allowed.set(MoveFamily::cuda_graph, true);
  CHECK_FALSE(tuned(allowed).with_cuda_graph);
}

TEST_CASE("a search is the same on any number of threads") {
  TuneRequest many = request();
  many.threads = 5;
  const TuneResult a = tuned(request());
  const TuneResult b = tuned(many);
  CHECK(a.tried == b.tried);
  CHECK(a.pruned == b.pruned);
  REQUIRE((a.best && b.best));
  CHECK(a.best->point.settings == b.best->point.settings);
  CHECK(a.best->phrase == b.best->phrase);
  REQUIRE(a.next.size() == b.next.size());
  for (std::size_t i = 0; i < a.next.size(); ++i) CHECK(a.next[i].point.settings == b.next[i].point.settings);
}

TEST_CASE("limits end a search with the best so far") {
  TuneRequest few = request();
  few.points = 7;
  const TuneResult by_points = tuned(few);
  CHECK(by_points.tried == 7);
  CHECK(by_points.end == TuneEnd::points);
  CHECK(by_points.best);
  TuneRequest short_time = request();
  short_time.is_over = [] { return true; };
  const TuneResult by_time = tuned(short_time);
  CHECK(by_time.tried == 1);
  CHECK(by_time.end == TuneEnd::time);
  REQUIRE(by_time.best);
  CHECK(by_time.best->point.settings == short_time.start);
  std::size_t asked = 0;
  short_time.is_over = [&asked] { return ++asked > 2; };  // behind the start and twice four of the first 32
  const TuneResult soon = tuned(short_time);
  CHECK(soon.tried == 9);
  CHECK(soon.end == TuneEnd::time);
  short_time.is_over = [] { return false; };
  CHECK(tuned(short_time).points.size() == tuned(request()).points.size());
}

TEST_CASE("the best leaves the headroom, and where nothing does there is none") {
  TuneRequest within = request();
  const Bytes reserved = tuned(within).best->point.peaks.reserved;
  within.memory_limit = reserved + 2 * kMiB;
  within.headroom = 4 * kMiB;
  const TuneResult smaller = tuned(within);
  REQUIRE(smaller.best);
  CHECK(smaller.best->point.peaks.reserved + within.headroom <= *within.memory_limit);
  within.memory_limit = 2 * kMiB;
  OneWorkload source(timed());
  const auto refused = tune(source, machine(), within);  // a headroom of more than there is
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind == ErrorKind::usage);
  within.headroom = 0;
  const TuneResult none = tuned(within);
  CHECK_FALSE(none.best);
  CHECK(none.out_of_memory > 0);
}

TEST_CASE("a start that does not fit is left for one that does") {
  std::vector<Unit> units = foreshard::test::small_units(8);
  for (Unit& unit : units)
    for (Parameter& parameter : unit.parameters) parameter.shape = {2048, 2048};
  const auto large = std::make_shared<const Workload>(foreshard::test::timed_workload(base(), units, 3.0));
  TuneRequest within = request();
  within.start.reshard_after_forward.kind = Reshard::Kind::never;
  Settings sharded = within.start;
  sharded.reshard_after_forward = {};
  const auto p = predict(*large, machine(), {sharded, {}, 4});
  REQUIRE(p);
  within.memory_limit = p->peaks.reserved;
  const TuneResult result = tuned(within, large);
  CHECK(result.start.point.state == SweepPoint::State::out_of_memory);
  REQUIRE(result.best);
  CHECK(result.best->point.peaks.reserved <= *within.memory_limit);
}

TEST_CASE("a source without times is refused, for sweep to find the smallest") {
  Workload workload = *timed();
  workload.has_timing = false;
  OneWorkload source(std::make_shared<const Workload>(std::move(workload)));
  const auto found = tune(source, machine(), request());
  REQUIRE_FALSE(found);
  CHECK(found.error().kind == ErrorKind::usage);
  CHECK(found.error().hint.find("sweep") != std::string::npos);
}

TEST_CASE("moves of a recording's units are of those that run, where settings group them") {
  TuneRequest grouped = request();
  grouped.start.units_per_group = 2;
  grouped.allowed.set(MoveFamily::units, false);
  const TuneResult result = tuned(grouped);
  for (const ReasonCount& refused : result.refused) {
    INFO(refused.reason);
    CHECK(refused.reason.find("there is no unit") == std::string::npos);
  }
  REQUIRE(result.best);
  CHECK(result.units.size() == 4);  // the root and three of two blocks
}

TEST_CASE("of steps that are equal the answer is the smaller, and no change is in it that brings nothing") {
  const TuneResult result = tuned(request());
  REQUIRE(result.best);
  const SweepPoint& best = result.best->point;
  for (const auto& simpler : {result.uniform, result.greedy}) {
    if (!simpler || simpler->point.step_ms > best.step_ms * (1 + kEqualSteps)) continue;
    CHECK(static_cast<double>(best.peaks.reserved) <= 1.02 * static_cast<double>(simpler->point.peaks.reserved));
  }
  for (const ChangeWorth& one : result.changes) {
    INFO(one.setting);
    CHECK((!one.ms || *one.ms > 0 || one.reserved > 0));
  }
  Bytes smallest = best.peaks.reserved;
  for (const TunedPoint& next : result.next) {
    CHECK(next.point.peaks.reserved < smallest);
    smallest = next.point.peaks.reserved;
  }
}

TEST_CASE("where what was asked for leaves less than the headroom the best may be slower, and fits") {
  TuneRequest asked = request();
  asked.start = tuned(asked).best->point.settings;  // the fastest there is
  const TunedPoint start = tuned(asked).start;
  asked.memory_limit = start.point.peaks.reserved + 2 * kMiB;
  asked.headroom = 4 * kMiB;
  const TuneResult result = tuned(asked);
  CHECK(result.most_reserved == *asked.memory_limit - asked.headroom);
  CHECK(result.start.point.peaks.reserved > result.most_reserved);
  REQUIRE(result.best);
  CHECK(result.best->point.peaks.reserved <= result.most_reserved);
  CHECK(result.best->point.step_ms > result.start.point.step_ms);
}

TEST_CASE("what takes least where nothing fits hardly depends on how many points are tried") {
  std::vector<Unit> units = foreshard::test::small_units(8);
  for (Unit& unit : units)
    for (Parameter& parameter : unit.parameters) parameter.shape = {2048, 2048};
  const auto large = std::make_shared<const Workload>(foreshard::test::timed_workload(base(), units, 3.0));
  TuneRequest hopeless = request();
  hopeless.memory_limit = 2 * kMiB;
  const TuneResult all = tuned(hopeless, large);
  hopeless.points = 4;
  const TuneResult few = tuned(hopeless, large);
  REQUIRE((all.least && few.least));
  CHECK(static_cast<double>(few.least->point.most_reserved) <=
        1.1 * static_cast<double>(all.least->point.most_reserved));
}

TEST_CASE("the best is as fast as the fastest, and of those none is smaller by what is worth it") {
  const TuneResult result = tuned(request());
  REQUIRE(result.best);
  const SweepPoint& best = result.best->point;
  const SweepPoint& fastest = result.fastest ? result.fastest->point : best;
  const double limit = fastest.step_ms * (1 + kEqualSteps);
  CHECK(best.step_ms <= limit);
  for (std::size_t i = 0; i < result.points.size(); ++i) {
    const SweepPoint& one = result.points[i].point;
    const bool takes_part = std::find(result.no_part.begin(), result.no_part.end(), i) == result.no_part.end();
    if (one.state != SweepPoint::State::ran || !takes_part) continue;
    CHECK(one.step_ms >= fastest.step_ms);
    if (one.step_ms <= limit)
      CHECK(static_cast<double>(one.peaks.reserved) >= 0.98 * static_cast<double>(best.peaks.reserved));
  }
}

TEST_CASE("where the host takes longest and a graph may be made, a search of few points finds what it brings") {
  Workload slow = foreshard::test::timed_workload(base(), 6);
  for (Program& program : slow.steps)
    for (Op& op : program.ops) op.host_before = Nanoseconds{op.host_before.count * 200};
  const auto workload = std::make_shared<const Workload>(std::move(slow));
  TuneRequest few = request();
  few.allowed.set(MoveFamily::cuda_graph, true);
  few.points = 4;
  const TuneResult result = tuned(few, workload);
  REQUIRE(result.best);
  CHECK(result.start.point.floor.host_ms == result.start.point.floor.ms());
  CHECK(result.best->point.settings.cuda_graph.has_value());
  CHECK(result.best->point.step_ms < result.start.point.step_ms);
  few.allowed.set(MoveFamily::cuda_graph, false);
  CHECK_FALSE(tuned(few, workload).best->point.settings.cuda_graph.has_value());
}

TEST_CASE("a sweep that is over leaves out the points that it came not to") {
  OneWorkload source(timed());
  SweepRequest question{base(), usual_ranges(), {}};
  const auto all = sweep(source, machine(), question);
  std::size_t asked = 0;
  question.is_over = [&asked] { return ++asked > 3; };
  const auto some = sweep(source, machine(), question);
  REQUIRE((all && some));
  REQUIRE(some->size() == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK((*some)[i].settings == (*all)[i].settings);
}
