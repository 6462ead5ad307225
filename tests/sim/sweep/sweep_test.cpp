#include "sim/sweep/sweep.hpp"

#include "tests/catch.hpp"
#include "tests/property/timed_workload.hpp"
#include "tests/sim/sweep/small_plan.hpp"

using namespace foreshard;
using namespace foreshard::sim;
using foreshard::sim::test::base;
using foreshard::sim::test::machine;

namespace {

std::vector<SweepPoint> run(const std::vector<Range>& ranges, unsigned threads,
                            std::optional<Bytes> limit = std::nullopt) {
  OneWorkload source(std::make_shared<const Workload>(foreshard::test::timed_workload(base(), 4, 3.0)));
  auto points = sweep(source, machine(), {base(), ranges, limit, threads});
  INFO((points ? std::string() : points.error().text()));
  REQUIRE(points);
  return std::move(*points);
}

const std::vector<Range> kRanges{{"forward_prefetch", {"implicit", "1", "2"}},
                                 {"reshard_after_forward", {"true", "false", "3"}},
                                 {"seq", {"128", "256"}}};

}  // namespace

TEST_CASE("points come in order, with the same bytes on any number of threads") {
  const auto one = run(kRanges, 1);
  const auto many = run(kRanges, 5);
  REQUIRE(one.size() == 18);
  REQUIRE(many.size() == 18);
  for (std::size_t i = 0; i < one.size(); ++i) {
    CHECK(one[i].values == values_at(kRanges, i));
    CHECK(one[i].values == many[i].values);
    CHECK(one[i].state == many[i].state);
    CHECK(one[i].step_ms == many[i].step_ms);
    CHECK(one[i].peaks == many[i].peaks);
    CHECK(one[i].warnings == many[i].warnings);
  }
}

TEST_CASE("a point is what plan says, its calibration shared") {
  const auto points = run(kRanges, 2);
  const Workload workload = foreshard::test::timed_workload(base(), 4, 3.0);
  Settings wanted = base();
  wanted.forward_prefetch = 2;
  wanted.reshard_after_forward.kind = Reshard::Kind::never;
  const auto p = predict(workload, machine(), {wanted, {}, 4});
  REQUIRE(p);
  const SweepPoint& point = points[14];  // 2, false, 128
  REQUIRE(point.values == std::vector<std::string>{"2", "false", "128"});
  CHECK(point.state == SweepPoint::State::ran);
  CHECK(point.step_ms == p->step_ms);
  CHECK(point.peaks == p->peaks);
  CHECK(point.tokens_per_s_per_gpu == Approx(2 * 128 / (p->step_ms / 1e3)));
}

TEST_CASE("refused points say why and are counted") {
  const auto points = run(kRanges, 2);
  const auto counts = refusals(points);
  REQUIRE(counts.size() == 2);
  CHECK(counts[0].points == 6);
  CHECK(counts[0].reason ==
        "another batch or sequence length changes the recorded program itself; record a step at that size, or plan "
        "from a "
        "model");
  CHECK(counts[1].points == 6);
  CHECK(counts[1].reason.find("does not divide") != std::string::npos);
  CHECK(costs(points).size() == 6);
}

TEST_CASE("points whose collectives run otherwise than asked for say why and are counted") {
  Settings across = base();
  across.nodes = 2;
  OneWorkload source(std::make_shared<const Workload>(foreshard::test::timed_workload(across, 4)));
  const auto points = sweep(source, machine(), {across, {{"all_gather", {"nccl", "copy-engine", "symmetric"}}}, {}});
  REQUIRE(points);
  CHECK((*points)[0].not_as_asked.empty());
  CHECK((*points)[0].step_ms == (*points)[1].step_ms);
  const auto counts = not_as_asked(*points);
  REQUIRE_FALSE(counts.empty());
  CHECK(counts[0].points == 1);
  CHECK((*points)[1].not_as_asked.front() == counts[0].reason);
}

TEST_CASE("a calibration that is known is not found again, and gives the same points") {
  const auto workload = std::make_shared<const Workload>(foreshard::test::timed_workload(base(), 4, 3.0));
  const std::vector<Range> ranges{{"forward_prefetch", {"implicit", "1"}}};
  HostScale known = find_host_scale(*workload, machine()).value();
  const auto points = [&](WorkloadSource&& source) { return sweep(source, machine(), {base(), ranges, {}}).value(); };
  const auto found = points(OneWorkload(workload));
  const auto taken = points(OneWorkload(workload, known));
  for (std::size_t i = 0; i < found.size(); ++i) {
    CHECK(found[i].step_ms == taken[i].step_ms);
    CHECK(found[i].warnings == taken[i].warnings);
  }
  known.anchor *= 2;
  CHECK(points(OneWorkload(workload, known))[0].step_ms != found[0].step_ms);
}

TEST_CASE("points beyond the memory are states of their own") {
  const auto points = run({{"forward_prefetch", {"implicit", "1"}}}, 1, Bytes{4} * kMiB);
  for (const SweepPoint& point : points) CHECK(point.state == SweepPoint::State::out_of_memory);
  CHECK(costs(points).empty());
}

TEST_CASE("times are compared a token only where the work differs") {
  std::vector<SweepPoint> points(2);
  for (SweepPoint& point : points) {
    point.has_time = true;
    point.step_ms = 10;
    point.settings = base();
  }
  CHECK(costs(points)[0].work == 1);
  points[1].settings.batch = 4;
  CHECK(costs(points)[1].work == 4 * 128);
  points[1].settings.batch.reset();
  CHECK(costs(points)[1].work == 1);
}

TEST_CASE("a point that may run out of memory takes part only where all valid ones may") {
  std::vector<SweepPoint> points(3);
  for (SweepPoint& point : points) {
    point.has_time = true;
    point.step_ms = 10;
    point.settings = base();
    point.peaks.reserved = point.most_reserved = 100;
  }
  const auto taking_part = [&] {
    std::vector<std::size_t> out;
    for (const PointCost& cost : costs(points)) out.push_back(cost.index);
    return out;
  };
  points[0].may_run_out_of_memory = true;
  points[2].valid = false;
  CHECK(taking_part() == std::vector<std::size_t>{1});
  CHECK(fits(points[0]) == Fits::maybe);
  CHECK(fits(points[1]) == Fits::surely);
  points[1].state = SweepPoint::State::out_of_memory;
  CHECK(fits(points[1]) == Fits::no);
  CHECK(taking_part() == std::vector<std::size_t>{0});
}

TEST_CASE("a point without a time that retries in each step takes part only where all do") {
  std::vector<SweepPoint> points(2);
  points[0].step_num_alloc_retries = 2;
  points[1].num_alloc_retries = 1;  // as the process began
  REQUIRE(costs(points).size() == 1);
  CHECK(costs(points)[0].index == 1);
  points[1].step_num_alloc_retries = 1;
  CHECK(costs(points).size() == 2);
}

TEST_CASE("a point has the range of its peak, and says whether a host may take it out of memory") {
  Settings settings = base();
  settings.release = Release::record_stream;
  const Workload workload = foreshard::test::timed_workload(base(), 4, 3.0);
  const auto p = predict(workload, machine(), {settings, {}, 4});
  REQUIRE(p);
  const auto points = run({{"release", {"record-stream", "stash"}}}, 1);
  CHECK(points[0].least_reserved == p->least_peaks.reserved);
  CHECK(points[0].peaks.reserved == most_reserved(*p));
  CHECK(points[0].most_reserved == std::max(p->most_peaks.reserved, most_reserved(*p)));
  CHECK(points[0].may_run_out_of_memory == p->may_run_out_of_memory);
  CHECK(points[1].least_reserved == points[1].peaks.reserved);
  CHECK(points[1].most_reserved == points[1].peaks.reserved);
}

TEST_CASE("a point's step alone is the whole point's step, memory and doubts") {
  for (const double measured_ms : {0.0, 0.4, 3.0})  // without calibration, host-bound, and anchored
    for (const bool keeps : {false, true}) {
      OneWorkload source(std::make_shared<const Workload>(foreshard::test::timed_workload(base(), 4, measured_ms)));
      Settings wanted = base();
      wanted.backward_prefetch = 2;
      if (keeps) wanted.reshard_after_forward.kind = Reshard::Kind::never;
      const SweepPoint whole = simulate_point(source, machine(), {}, wanted);
      const SweepPoint alone = simulate_point(source, machine(), {{}, {}, true}, wanted);
      REQUIRE(whole.state == SweepPoint::State::ran);
      CHECK(alone.state == whole.state);
      CHECK(alone.step_ms == whole.step_ms);
      CHECK(alone.peaks == whole.peaks);
      CHECK(alone.most_reserved == whole.most_reserved);
      CHECK(alone.num_alloc_retries == whole.num_alloc_retries);
      CHECK(alone.valid == whole.valid);
      CHECK(alone.not_valid == whole.not_valid);
      CHECK(alone.not_as_asked == whole.not_as_asked);
      CHECK(alone.tokens_per_s_per_gpu == whole.tokens_per_s_per_gpu);
    }
}
