// Two runs aligned: steps, phases, units, lanes, and memory at the peak as the store's own view has it.

#include "core/compare/compare.hpp"

#include <map>

#include "core/compare/replayed_phases.hpp"
#include "core/compare/run_totals.hpp"
#include "core/run/graph_replay.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/traces/export/random_run.hpp"
#include "traces/store/query.hpp"
#include "traces/store/store.hpp"

using namespace foreshard;

namespace {

void range(Run& run, const char* name, std::int64_t start, std::int64_t end) {
  run.host_ops.push_back({HostOpRecord::Kind::annotation, 0, run.labels.intern(name), {start}, {end}, 0});
}

void op(Run& run, std::int64_t issue, std::int64_t length, StreamId stream = kComputeStream) {
  DeviceOpRecord out;
  out.stream = stream;
  out.issue = {issue};
  out.start = {issue + 5};
  out.end = {issue + 5 + length};
  run.device_ops.push_back(out);
}

/// One step over two layers, as a profiler (all ranges) or a plan (sections only) sees it. The ops take `length` each.
Run two_layers(bool all_ranges, std::int64_t length) {
  Run run;
  run.units = {{"", {}}, {"layers.0", {}}, {"layers.1", {}}};
  run.streams = {{kComputeStream, "compute", 0, 0}};
  if (all_ranges) range(run, "FSDP::pre_forward", 0, 50);
  range(run, "FSDP::all_gather_copy_out", 10, 40);
  op(run, 100, length);  // root
  if (all_ranges) range(run, "FSDP::pre_forward (layers.0)", 150, 195);
  range(run, "FSDP::all_gather_copy_out (layers.0)", 160, 190);
  op(run, 200, length);  // layers.0
  range(run, "FSDP::post_forward (layers.0)", 250, 260);
  range(run, "FSDP::all_gather_copy_out (layers.1)", 270, 290);
  op(run, 300, length);  // layers.1
  range(run, "FSDP::post_forward (layers.1)", 350, 360);
  op(run, 400, length);  // root: the head
  op(run, 500, length);  // root: its backward
  if (all_ranges) range(run, "FSDP::pre_backward (layers.1)", 550, 599);
  range(run, "FSDP::all_gather_copy_out (layers.1)", 560, 590);
  op(run, 600, length);  // layers.1
  if (all_ranges) range(run, "FSDP::post_backward_accumulate (layers.1)", 650, 655);
  range(run, "FSDP::post_backward_reduce (layers.1)", 656, 660);
  op(run, 700, length);  // layers.0, whose parameters were still there: nothing opens it
  range(run, "FSDP::all_gather (layers.1)", 720, 760);
  op(run, 730, length);  // of layers.1, prefetched
  if (all_ranges) range(run, "FSDP::post_backward_accumulate (layers.0)", 800, 804);
  range(run, "FSDP::post_backward_reduce (layers.0)", 805, 810);
  op(run, 900, length);  // the optimizer
  run.phases = {{0, Recording::run, "forward", {0}, {450}},
                {0, Recording::run, "backward", {450}, {850}},
                {0, Recording::run, "optimizer", {850}, {950}}};
  StepRecord step;
  step.end = {1000};
  step.device_end = Nanoseconds{905 + length};
  run.steps = {step};
  return run;
}

}  // namespace

TEST_CASE("compare: units are cut at the ranges that both runs have") {
  const auto comparison = compare_runs(two_layers(true, 10), two_layers(false, 12));
  REQUIRE(comparison);
  std::map<std::pair<std::string, std::string>, std::pair<std::uint64_t, std::uint64_t>> ops;
  for (const LaneRow& row : comparison->lanes) {
    if (row.lane != TimeLane::compute) continue;
    ops[{row.phase, row.unit}] = {row.ops_a, row.ops_b};
    CHECK(row.a.count == 10 * static_cast<std::int64_t>(row.ops_a));
    CHECK(row.b.count == 12 * static_cast<std::int64_t>(row.ops_b));
  }
  const std::pair<std::uint64_t, std::uint64_t> one{1, 1}, two{2, 2};
  CHECK(ops == decltype(ops){{{"forward", "root"}, two},
                             {{"forward", "layers.0"}, one},
                             {{"forward", "layers.1"}, one},
                             {{"backward", "root"}, one},
                             {{"backward", "layers.1"}, two},
                             {{"backward", "layers.0"}, one},
                             {{"optimizer", ""}, one}});
}

TEST_CASE("compare: units are cut alike where one run gathers nothing again in backward") {
  Run kept = two_layers(false, 10);
  const LabelId gathered = kept.labels.intern("FSDP::all_gather_copy_out (layers.1)");
  std::erase_if(kept.host_ops, [&](const HostOpRecord& op) { return op.label == gathered && op.start.count > 450; });
  const Run again = two_layers(false, 10);
  for (const auto& comparison : {compare_runs(again, kept), compare_runs(kept, again)}) {
    REQUIRE(comparison);
    for (const LaneRow& row : comparison->lanes) {
      INFO(row.phase << ' ' << row.unit);
      CHECK(row.ops_a == row.ops_b);
    }
  }
}

TEST_CASE("compare: beside a recorded replay forward and backward are one phase, and units are not told apart") {
  const Run eager = two_layers(true, 10);
  Run replay = two_layers(false, 9);
  std::erase_if(replay.host_ops, [](const HostOpRecord& op) { return op.start.count < 850; });
  replay.phases = {{0, Recording::run, std::string(kGraphReplay), {0}, {850}},
                   {0, Recording::run, "optimizer", {850}, {950}}};
  CHECK_FALSE(as_replayed(replay, {}, replay, {}));
  CHECK_FALSE(as_replayed(replay, {}, eager, {}));
  CHECK_FALSE(as_replayed(eager, {}, eager, {}));
  const auto merged = as_replayed(eager, {}, replay, {});
  REQUIRE(merged);
  const auto comparison = compare_runs(*merged, replay);
  REQUIRE(comparison);
  std::map<std::pair<std::string, std::string>, std::pair<std::uint64_t, std::uint64_t>> ops;
  for (const LaneRow& row : comparison->lanes)
    if (row.lane == TimeLane::compute) ops[{row.phase, row.unit}] = {row.ops_a, row.ops_b};
  const std::pair<std::uint64_t, std::uint64_t> passes{8, 8}, one{1, 1};
  CHECK(ops == decltype(ops){{{std::string(kGraphReplay), ""}, passes}, {{"optimizer", ""}, one}});
  const auto phases = phases_ms(*merged);
  REQUIRE(phases.size() == 2);
  CHECK(phases[0].first == kGraphReplay);
  CHECK(phases[0].second == Approx(Nanoseconds{850}.ms()));
}

TEST_CASE("compare: lanes hold every op of the step, the host its phases, in A's order") {
  Run a = two_layers(true, 10);
  op(a, 450, 7, StreamId{2});
  a.device_ops.back().kind = DeviceOpRecord::Kind::collective;
  a.device_ops.back().collective = CollectiveKind::reduce_scatter;
  const auto comparison = compare_runs(a, two_layers(false, 12));
  REQUIRE(comparison);
  std::uint64_t ops = 0;
  std::vector<std::string> host;
  for (const LaneRow& row : comparison->lanes) {
    if (row.lane == TimeLane::host) {
      host.push_back(row.phase);
      continue;
    }
    ops += row.ops_a;
    if (row.lane == TimeLane::reduce_scatter) CHECK(row.ops_b == 0);
  }
  CHECK(ops == a.device_ops.size());
  CHECK(host == std::vector<std::string>{"forward", "backward", "optimizer"});
}

TEST_CASE("compare: a step is chosen, the last one if none is asked for, and others are refused") {
  const Run run = test::RandomRun(11, RunKind::planned).make();
  const auto last = compare_runs(run, run);
  REQUIRE(last);
  CHECK(last->a.time->index == 2);
  CHECK(last->a.time->begin == *run.steps[1].device_end);
  const auto first = compare_runs(run, run, {.step_a = 0, .step_b = 1});
  REQUIRE(first);
  CHECK(first->a.time->index == 0);
  CHECK(first->a.time->begin == run.steps[0].start);
  CHECK(first->b.memory->index == 1);
  const auto missing = compare_runs(run, run, {.step_b = 7});
  REQUIRE_FALSE(missing);
  CHECK(missing.error().kind == ErrorKind::usage);
  CHECK(missing.error().hint == "it has 0, 1, 2");
}

TEST_CASE("compare: a run without memory, or without time, is compared in what it has") {
  const Run full = test::RandomRun(12, RunKind::imported).make();
  Run no_memory = full;
  no_memory.allocator.clear();
  Run no_time = full;
  no_time.device_ops.clear();
  std::erase_if(no_time.steps, [](const StepRecord& step) { return step.recording == Recording::trace; });
  const auto comparison = compare_runs(no_memory, no_time);
  REQUIRE(comparison);
  CHECK(comparison->a.time);
  CHECK_FALSE(comparison->a.memory);
  CHECK_FALSE(comparison->b.time);
  CHECK(comparison->b.memory);
  CHECK(comparison->breakdown.empty());
  CHECK(comparison->lanes.empty());
  for (const MemoryRow& row : comparison->categories) CHECK(row.a == 0);
}

TEST_CASE("compare: a step that cannot be explained is other as a whole, and says why") {
  const Run whole = two_layers(true, 20);
  Run bare = whole;
  bare.device_ops.clear();
  bare.info.kind = RunKind::imported;
  const auto both = compare_runs(whole, bare);
  REQUIRE(both);
  CHECK(both->a.time->unexplained.empty());
  CHECK(both->b.time->unexplained == "it has no step 0 on the GPU");
  for (const BreakdownRow& row : both->breakdown)
    if (row.b.count != 0) CHECK(row.cause == TimeCause::other);
}

TEST_CASE("compare: times that no run can have are refused") {
  const Run good = test::RandomRun(13, RunKind::planned).make();
  for (int what = 0; what < 4; ++what) {
    Run bad = good;
    if (what == 0) bad.device_ops[1].start = {INT64_MIN};
    if (what == 1) bad.host_ops[0].end = bad.host_ops[0].start - Nanoseconds{1};
    if (what == 2) bad.allocator[2].time = {INT64_MAX};
    if (what == 3) bad.steps[0].device_end = Nanoseconds{INT64_MAX};
    const auto compared = compare_runs(good, bad);
    REQUIRE_FALSE(compared);
    CHECK(compared.error().kind == ErrorKind::input);
  }
}

TEST_CASE("compare: memory at the peak is what the store's view peak_by_category says") {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("run.db");
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    INFO("seed " << seed);
    const Run run = test::RandomRun(seed, seed % 2 == 0 ? RunKind::imported : RunKind::planned).make();
    REQUIRE(traces::write_run(run, path, {.force = true}));
    for (const StepRecord& step : run.steps) {
      if (step.recording == Recording::trace) continue;
      const auto comparison = compare_runs(run, run, {.step_a = step.index, .step_b = step.index});
      REQUIRE(comparison);
      std::map<std::string, std::int64_t> found, expected;
      std::int64_t units = 0;
      for (const MemoryRow& row : comparison->categories) found[row.name] = row.a;
      for (const MemoryRow& row : comparison->units) units += row.a;
      const auto rows = traces::query(
          path, "SELECT category, bytes FROM peak_by_category WHERE step = " + std::to_string(step.index));
      REQUIRE(rows);
      std::int64_t sum = 0;
      for (const auto& row : rows->rows) {
        expected[std::get<std::string>(row[0])] = std::get<std::int64_t>(row[1]);
        if (std::get<std::string>(row[0]) != "before_recording") sum += std::get<std::int64_t>(row[1]);
      }
      CHECK(found == expected);
      CHECK(units == sum);
    }
  }
}
