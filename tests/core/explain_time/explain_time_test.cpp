// Each cause on a step made for it, and sums that hold on any run.

#include <algorithm>
#include <ctime>
#include <string>
#include <vector>

#include "core/explain_time/critical_path.hpp"
#include "core/explain_time/time_explanation.hpp"
#include "core/explain_time/time_words.hpp"
#include "tests/catch.hpp"
#include "tests/core/explain_time/time_parts.hpp"
#include "tests/traces/export/random_run.hpp"

using namespace foreshard;

namespace {

constexpr StreamId kGather{1};
constexpr StreamId kReduce{2};
constexpr StreamId kCopyIn{3};

/// A step of a recording, times in ns: the host issues all day, a gather and a reduce stream share one communicator.
class Step {
 public:
  Step() {
    run.info.kind = RunKind::imported;
    run.units = {{"", {}}, {"layers.0", {}}, {"layers.1", {}}};
    run.phases = {{0, Recording::trace, "forward", {0}, {10'000'000}}};
    range("FSDP::root_pre_forward", 0, 1);
  }

  std::size_t compute(std::int64_t issue, std::int64_t start, std::int64_t end) {
    return add(kComputeStream, DeviceOpRecord::Kind::kernel, issue, start, end);
  }
  std::size_t gather(std::uint32_t unit, std::int64_t issue, std::int64_t start, std::int64_t end) {
    const std::size_t op = add(kGather, DeviceOpRecord::Kind::collective, issue, start, end);
    run.device_ops[op].unit = UnitId{unit};
    run.device_ops[op].communicator = CommunicatorId{0};
    run.device_ops[op].bytes = 1'000 * (unit + 1);
    return op;
  }
  /// Issued in its unit's post-backward.
  std::size_t reduce(std::uint32_t unit, std::int64_t issue, std::int64_t start, std::int64_t end) {
    const std::size_t op = gather(unit, issue, start, end);
    run.device_ops[op].stream = kReduce;
    run.device_ops[op].collective = CollectiveKind::reduce_scatter;
    range("FSDP::post_backward_reduce", issue, issue + 1);
    return op;
  }
  std::size_t add(StreamId stream, DeviceOpRecord::Kind kind, std::int64_t issue, std::int64_t start,
                  std::int64_t end) {
    DeviceOpRecord op;
    op.kind = kind;
    op.stream = stream;
    op.label = run.labels.intern("kernel");
    op.issue = {issue};
    op.start = {start};
    op.end = {end};
    run.device_ops.push_back(op);
    return run.device_ops.size() - 1;
  }
  void call(const char* name, std::int64_t start, std::int64_t end) {
    run.host_ops.push_back({HostOpRecord::Kind::runtime, 0, run.labels.intern(name), {start}, {end}, 0});
  }
  void range(const char* name, std::int64_t start, std::int64_t end) {
    run.host_ops.push_back({HostOpRecord::Kind::annotation, 0, run.labels.intern(name), {start}, {end}, 0});
  }
  /// "cause length" of each part, without what is shorter than 10 us.
  std::vector<std::string> causes(Recording recording = Recording::trace) {
    StepRecord step;
    step.recording = recording;
    step.end = {10'000'000};
    step.device_end = Nanoseconds{0};
    for (const DeviceOpRecord& op : run.device_ops)
      if (op.stream == kComputeStream) step.device_end = std::max(*step.device_end, op.end);
    run.steps = {step};
    auto explained = explain_time(run);
    REQUIRE(explained);
    CHECK(test::time_parts_fault(run, *explained) == "");
    e = std::move(*explained);
    std::vector<std::string> out;
    for (const IdlePart& part : e.parts)
      if (part.length().count >= 10'000)
        out.push_back(std::string(name(part.cause)) + " " + std::to_string(part.length().count));
    return out;
  }
  const IdlePart& part(IdleCause cause) {
    const auto found =
        std::find_if(e.parts.begin(), e.parts.end(), [&](const IdlePart& p) { return p.cause == cause; });
    REQUIRE(found != e.parts.end());
    return *found;
  }

  Run run;
  TimeExplanation e;
};

using Causes = std::vector<std::string>;

}  // namespace

TEST_CASE("a host that is late is issuing, waiting, or held by the allocator") {
  Step step;
  step.compute(0, 0, 100'000);
  step.call("cudaMalloc", 120'000, 150'000);
  step.call("cudaStreamSynchronize", 160'000, 190'000);
  const std::size_t next = step.compute(200'000, 204'000, 300'000);
  CHECK(step.causes() ==
        Causes{"issuing 20000", "allocator 30000", "issuing 10000", "synchronize 30000", "issuing 10000"});
  CHECK(step.part(IdleCause::launch).length().count == 4'000);
  CHECK(step.part(IdleCause::issuing).op == next);
  CHECK(step.e.compute.count == 196'000);
}

TEST_CASE("a gap between kernels that were issued in time is the GPU's") {
  Step step;
  step.compute(0, 0, 100'000);
  step.compute(10, 102'000, 200'000);
  CHECK(step.causes().empty());
  CHECK(step.part(IdleCause::kernel_gap).length().count == 2'000);
}

TEST_CASE("the first gathers and the last reduction cannot be hidden") {
  Step step;
  step.add(kCopyIn, DeviceOpRecord::Kind::kernel, 10, 12'000, 30'000);  // the root's copy-in belongs to its gather
  const std::size_t root = step.gather(0, 20, 32'000, 100'000);
  step.compute(30, 103'000, 120'000);
  const std::size_t first = step.gather(1, 40, 106'000, 200'000);
  step.compute(50, 203'000, 400'000);
  const std::size_t last = step.reduce(0, 60, 403'000, 500'000);
  step.compute(70, 503'000, 600'000);
  CHECK(step.causes() == Causes{"launch 11990", "first_gather 88000", "first_gather 80000", "last_reduction 100000"});
  CHECK(step.part(IdleCause::first_gather).op == root);
  CHECK(step.part(IdleCause::last_reduction).op == last);
  CHECK(step.part(IdleCause::last_reduction).unit == "root");
  CHECK(step.e.parts[2].op != first);
  CHECK(step.e.exposed_communication.count == 68'000 + 80'000 + 97'000);
}

TEST_CASE("a gather that its hook issues late is the prefetch rule's") {
  Step step;
  step.gather(0, 0, 1'000, 20'000);
  step.gather(1, 1, 26'000, 40'000);
  step.compute(2, 43'000, 100'000);
  step.range("FSDP::pre_forward (layers.1)", 140'000, 160'000);
  const std::size_t late = step.gather(2, 150'000, 155'000, 220'000);
  step.compute(151'000, 223'000, 300'000);
  CHECK(step.causes() == Causes{"first_gather 19000", "first_gather 20000", "issuing 50000", "prefetch 65000"});
  CHECK(step.part(IdleCause::prefetch).op == late);
  CHECK(step.run.labels.text(step.part(IdleCause::prefetch).host) == "FSDP::pre_forward (layers.1)");
}

TEST_CASE("a collective behind another of its communicator names it") {
  Step step;
  step.gather(0, 0, 1'000, 20'000);
  step.gather(1, 1, 26'000, 40'000);
  step.compute(2, 43'000, 58'000);  // makes the gradients
  step.compute(2, 60'000, 100'000);
  const std::size_t before = step.reduce(2, 3, 61'000, 150'000);
  const std::size_t waits = step.gather(2, 4, 156'000, 260'000);
  step.compute(5, 263'000, 300'000);
  step.reduce(0, 6, 303'000, 310'000);
  CHECK(step.causes() ==
        Causes{"first_gather 19000", "first_gather 20000", "gradients 50000", "previous_collective 110000"});
  CHECK(step.part(IdleCause::previous_collective).op == waits);
  CHECK(step.part(IdleCause::previous_collective).behind == before);
  step.range("FSDP::all_gather_copy_out (layers.1)", 4, 6);
  (void)step.causes();
  CHECK(next_words(step.run, step.e.gaps.back()) == "the copy-out of layers.1");
}

TEST_CASE("a collective that its isolated twins outrun was slowed by the kernel beside it") {
  Step step;
  for (std::int64_t i = 0; i < 3; ++i) step.gather(2, i, 1'000 + i * 60'000, 51'000 + i * 60'000);  // 50 us each
  const std::size_t kernel = step.compute(10, 172'000, 250'000);
  step.gather(2, 20, 190'000, 300'000);  // 110 us, 60 of them beside the kernel
  step.compute(30, 303'000, 400'000);
  CHECK(step.causes().back() == "contention 50000");
  CHECK(step.part(IdleCause::contention).behind == kernel);
}

TEST_CASE("a collective that runs faster beside a kernel than its twins alone was not slowed: no part is negative") {
  Step step;
  for (std::int64_t i = 0; i < 3; ++i) step.gather(2, i, 1'000 + i * 60'000, 51'000 + i * 60'000);  // 50 us each
  step.compute(10, 172'000, 200'000);
  step.gather(2, 20, 180'000, 225'000);  // 45 us, 20 of them beside the kernel
  step.compute(30, 228'000, 300'000);
  (void)step.causes();
  for (const IdlePart& part : step.e.parts) CHECK(part.cause != IdleCause::contention);
  CHECK(step.e.parts.back().end.count == 228'000);
}

TEST_CASE("an op whose call was not recorded counts as issued in time") {
  Step near;  // without a call an op's issue is its start
  near.compute(0, 0, 100'000);
  near.compute(102'000, 102'000, 200'000);
  CHECK(near.causes().empty());
  CHECK(near.part(IdleCause::kernel_gap).length().count == 2'000);

  Step far;
  far.compute(0, 0, 100'000);
  far.compute(140'000, 140'000, 200'000);
  CHECK(far.causes() == Causes{"launch 40000"});

  Step first;  // nothing before it, either
  first.compute(30'000, 30'000, 100'000);
  CHECK(first.causes() == Causes{"launch 30000"});
}

TEST_CASE("a rank that begins a collective last is named for the time until it does") {
  Step step;
  const std::size_t root = step.gather(0, 0, 1'000, 90'000);
  step.compute(1, 93'000, 100'000);
  step.run.ranks = {{0, {}, {}}, {3, {}, {}}};
  DeviceOpRecord other = step.run.device_ops[root];
  other.start = {71'000};
  step.run.rank_ops = {{0, 0, {}, 0, step.run.device_ops[root]}, {3, 0, {}, 0, other}};
  CHECK(step.causes() == Causes{"late_rank 70000", "first_gather 19000"});
  CHECK(step.part(IdleCause::late_rank).rank == 3U);
}

TEST_CASE("a collective that takes far longer than its twins, with nothing beside it, waited for ranks") {
  Step step;
  step.gather(2, 0, 1'000, 51'000);
  step.compute(1, 54'000, 60'000);
  step.gather(2, 2, 62'000, 212'000);  // 150 us, as its twin in 50
  step.compute(3, 215'000, 300'000);
  CHECK(step.causes().at(1) == "late_rank 100000");
  CHECK_FALSE(step.part(IdleCause::late_rank).rank);
}

TEST_CASE("copies that the compute stream waits for are no communication") {
  Step step;
  step.compute(0, 0, 10'000);
  step.add(kCopyIn, DeviceOpRecord::Kind::copy, 1, 20'000, 90'000);
  step.compute(2, 93'000, 100'000);
  CHECK(step.causes() == Causes{"launch 10000", "copies 70000"});
  CHECK_FALSE(is_communication(IdleCause::copies));
}

TEST_CASE("equal layers are one row of the critical path") {
  Step step;
  step.run.units.clear();
  for (int unit = 0; unit < 60; ++unit) step.run.units.push_back({"layers." + std::to_string(unit), {}});
  step.run.info.kind = RunKind::executed;  // its ops say their units
  for (PhaseRecord& phase : step.run.phases) phase.recording = Recording::run;
  std::int64_t at = 0;
  for (std::uint32_t unit = 0; unit < 60; ++unit) {
    const std::size_t kernel = step.compute(static_cast<std::int64_t>(unit), at, at + 200'000);
    step.run.device_ops[kernel].unit = UnitId{unit};
    step.gather(unit + 1 < 60 ? unit + 1 : 0, unit, at + 150'000, at + 250'000);
    at += 252'000;
  }
  const std::size_t last = step.compute(70, at, at + 10'000);
  step.run.device_ops[last].unit = UnitId{59};
  step.run.steps.clear();
  (void)step.causes(Recording::run);
  const std::vector<PathRow> path = critical_path(step.run, step.e);
  REQUIRE(path.size() <= 6);
  const auto most =
      std::max_element(path.begin(), path.end(), [](const PathRow& a, const PathRow& b) { return a.count < b.count; });
  CHECK(most->count >= 57);
  REQUIRE(most->pattern.size() == 2);
  CHECK(most->pattern[0].computes);
  CHECK_FALSE(most->pattern[1].computes);
}

TEST_CASE("words name the collective, its size and what it was behind") {
  Step step;
  step.gather(0, 0, 1'000, 20'000);
  step.compute(1, 23'000, 40'000);
  const auto causes = step.causes();
  CHECK(op_words(step.run, 0) == "all-gather of the root, 1000 B");
  CHECK(chain_words(step.run, step.part(IdleCause::first_gather)) ==
        "all-gather of the root, 1000 B: nothing of the forward can run before it");
  CHECK(next_words(step.run, step.e.gaps.front()) == "kernel");
  CHECK(time_headline(step.run, step.e) ==
        "0.02 ms of 0.04 ms a step are exposed communication, most of it the first gather (0.02 ms, all-gather of the "
        "root, 1000 B), which nothing can hide with these units; launch and event latencies take 0.00 ms");
}

TEST_CASE("a run without device ops, and a step that is not there, are refused") {
  Run run;
  CHECK(explain_time(run).error().kind == ErrorKind::input);
  Step step;
  step.compute(0, 0, 10'000);
  (void)step.causes();
  CHECK(explain_time(step.run, 7).error().kind == ErrorKind::usage);
}

TEST_CASE("an async all-gather whose copy-in is on the compute stream is issued where it is needed") {
  Step step;
  step.gather(0, 0, 1'000, 20'000);
  step.gather(1, 1, 26'000, 40'000);
  step.compute(2, 43'000, 100'000);
  step.range("FSDP::all_gather (layers.1)", 5, 20);
  step.compute(10, 102'000, 110'000);  // the copy-in
  const std::size_t gather = step.gather(2, 15, 113'000, 220'000);
  step.compute(30, 223'000, 300'000);
  CHECK(step.causes().back() == "prefetch 110000");
  CHECK(chain_words(step.run, step.part(IdleCause::prefetch)) ==
        "all-gather of layers.1, 2.93 KiB was issued only then, in FSDP::all_gather (layers.1): its own pre-forward "
        "issues it, without forward prefetch");
  CHECK(step.part(IdleCause::prefetch).op == gather);
}

TEST_CASE("ops without length at one moment, with waits among them, end") {
  Run run;
  run.info.kind = RunKind::planned;
  for (std::uint32_t i = 0; i < 40; ++i) {
    DeviceOpRecord op;
    op.stream = StreamId{i % 4};
    op.kind = i % 4 == 2 ? DeviceOpRecord::Kind::collective : DeviceOpRecord::Kind::kernel;
    op.communicator = CommunicatorId{i % 3};
    op.unit = UnitId{i};  // no such unit
    op.label = LabelId{i};
    op.issue = op.start = op.end = {i < 20 ? 0 : 1'000};
    run.device_ops.push_back(op);
    run.events.push_back({EventRecord::Kind::record, EventId{i}, op.stream, op.issue});
    run.events.push_back({EventRecord::Kind::wait, EventId{i}, StreamId{(i + 1) % 4}, op.issue});
  }
  StepRecord step;
  step.end = {2'000};
  step.device_end = Nanoseconds{3'000};
  run.steps = {step};
  const auto e = explain_time(run);
  REQUIRE(e);
  CHECK(test::time_parts_fault(run, *e) == "");
  for (const IdlePart& part : e->parts) CHECK_FALSE(chain_words(run, part).empty());
  CHECK_FALSE(time_headline(run, *e).empty());
}

/// Steps of 40 ops, each with an exposed gather, a late host and a cast behind a reduction.
Run many_steps(std::int32_t count) {
  Step made;
  made.run.phases.clear();
  for (std::int32_t s = 0; s < count; ++s) {
    const std::int64_t from = std::int64_t{s} * 1'000'000;
    made.run.phases.push_back({s, Recording::trace, "forward", {from}, {from + 500'000}});
    made.run.phases.push_back({s, Recording::trace, "backward", {from + 500'000}, {from + 1'000'000}});
    for (std::int64_t k = 0; k < 36; ++k) made.compute(from + k, from + 20'000 * k, from + 20'000 * k + 10'000);
    made.gather(0, from + 2, from + 10'000, from + 20'000);
    made.gather(1, from + 3, from + 200'000, from + 219'000);
    made.reduce(1, from + 4, from + 730'000, from + 800'000);
    StepRecord step;
    step.recording = Recording::trace;
    step.index = s;
    step.start = {from};
    step.end = {from + 1'000'000};
    step.device_end = Nanoseconds{from + 900'000};
    made.run.steps.push_back(step);
  }
  return std::move(made.run);
}

TEST_CASE("each step of many is explained as alone, and all of them in time linear in the run") {
  const auto explain_all = [](const Run& run) {
    const std::clock_t begun = std::clock();
    const TimeExplainer explainer(run);
    for (std::size_t i = 0; i < run.steps.size(); ++i) REQUIRE(explainer.explain_at(i));
    return static_cast<double>(std::clock() - begun);
  };
  const Run few = many_steps(200), many = many_steps(3'200);
  const TimeExplainer explainer(few);
  for (std::int32_t step : {0, 1, 77, 199}) {
    const auto alone = explain_time(few, step);
    const auto among = explainer.explain_at(static_cast<std::size_t>(step));
    REQUIRE(alone);
    REQUIRE(among);
    CHECK(among->parts.size() == alone->parts.size());
    CHECK(among->compute == alone->compute);
    CHECK(test::time_parts_fault(few, *among) == "");
  }
  const double short_time = std::min({explain_all(few), explain_all(few), explain_all(few)});
  CHECK(explain_all(many) < 64 * short_time);  // of 16 times the steps; step by step it would be 256 times
}

TEST_CASE("the parts of random runs add up to step - compute") {
  for (std::uint64_t seed = 0; seed < 300; ++seed)
    for (const RunKind kind : {RunKind::imported, RunKind::planned, RunKind::executed}) {
      INFO("seed " << seed << ", kind " << static_cast<int>(kind));
      const Run run = test::RandomRun(seed, kind).make();
      for (std::int32_t step = 0; step < 3; ++step) {
        const auto e = explain_time(run, step);
        if (!e) continue;
        CHECK(test::time_parts_fault(run, *e) == "");
      }
    }
}
