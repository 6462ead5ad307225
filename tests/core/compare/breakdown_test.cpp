// The error budget: each cause on a run made for it, and sums that hold on any run.

#include <map>

#include "core/compare/compare.hpp"
#include "tests/catch.hpp"
#include "tests/traces/export/random_run.hpp"

using namespace foreshard;

namespace {

/// A step of one compute stream and one all-gather stream, times in ns.
class Script {
 public:
  Script() {
    run.info.kind = RunKind::imported;
    run.units = {{"", {}}, {"layers.0", {}}};
    run.streams = {{kComputeStream, "stream 7", 7, 0}, {StreamId{1}, "stream 20", 20, 0}};
    run.phases = {{0, Recording::trace, "forward", {0}, {100'000}}};
  }

  void compute(const char* name, std::int64_t issue, std::int64_t start, std::int64_t end) {
    add(kComputeStream, DeviceOpRecord::Kind::kernel, name, issue, start, end);
  }
  void gather(std::int64_t issue, std::int64_t start, std::int64_t end) {
    add(StreamId{1}, DeviceOpRecord::Kind::collective, "nccl", issue, start, end);
  }
  void call(const char* name, std::int64_t start, std::int64_t end) {
    run.host_ops.push_back({HostOpRecord::Kind::runtime, 0, run.labels.intern(name), {start}, {end}, 0});
  }
  /// What each cause takes of the step from 0 to the last op's end.
  std::map<TimeCause, std::int64_t> causes() {
    StepRecord step;
    step.recording = Recording::trace;
    step.end = {100'000};
    step.device_end = Nanoseconds{0};
    for (const DeviceOpRecord& op : run.device_ops)
      if (op.stream == kComputeStream) step.device_end = std::max(*step.device_end, op.end);
    run.steps = {step};
    const auto comparison = compare_runs(run, run);
    REQUIRE(comparison);
    std::map<TimeCause, std::int64_t> out;
    for (const BreakdownRow& row : comparison->breakdown) {
      CHECK(row.a == row.b);
      CHECK(row.phase == "forward");
      out[row.cause] += row.a.count;
    }
    unknown = comparison->a.time->contention_unknown;
    allocator = comparison->a.time->allocator;
    return out;
  }

  Run run;
  Nanoseconds unknown;
  Nanoseconds allocator;

 private:
  void add(StreamId stream, DeviceOpRecord::Kind kind, const char* name, std::int64_t issue, std::int64_t start,
           std::int64_t end) {
    DeviceOpRecord op;
    op.kind = kind;
    op.stream = stream;
    op.label = run.labels.intern(name);
    op.issue = {issue};
    op.start = {start};
    op.end = {end};
    run.device_ops.push_back(op);
  }
};

using Causes = std::map<TimeCause, std::int64_t>;

}  // namespace

TEST_CASE("budget: work is compute, a late host is host, what is on its way is neither") {
  Script script;
  script.compute("a", 0, 100, 1'000);        // 100 on its way
  script.compute("b", 1'500, 1'520, 2'000);  // issued 500 after a's end
  CHECK(script.causes() ==
        Causes{{TimeCause::isolated_compute, 1'380}, {TimeCause::host, 500}, {TimeCause::other, 120}});
}

TEST_CASE("budget: an idle compute stream while a collective runs is exposed communication") {
  Script script;
  script.gather(0, 500, 9'000);
  script.compute("a", 10, 10, 1'000);
  script.compute("b", 20, 9'050, 10'000);  // issued long ago, 50 after the all-gather's end
  CHECK(script.causes() == Causes{{TimeCause::isolated_compute, 1'940},
                                  {TimeCause::exposed_communication, 8'000},
                                  {TimeCause::other, 60}});
}

TEST_CASE("budget: so it is in a gap that the collective outlasts, and of a host that is late then") {
  Script script;
  script.gather(0, 100, 9'000);
  script.compute("a", 10, 10, 1'000);
  script.compute("b", 20, 1'040, 2'000);
  script.compute("c", 2'600, 2'600, 3'000);
  CHECK(script.causes() ==
        Causes{{TimeCause::isolated_compute, 2'350}, {TimeCause::exposed_communication, 640}, {TimeCause::other, 10}});
}

TEST_CASE("budget: a kernel slower beside a collective than its twins alone is contention") {
  Script script;
  script.compute("k", 0, 0, 10'000);
  script.compute("k", 0, 10'000, 20'000);
  script.gather(0, 20'000, 26'000);
  script.compute("k", 0, 20'000, 33'000);
  CHECK(script.causes() == Causes{{TimeCause::isolated_compute, 30'000}, {TimeCause::kernel_contention, 3'000}});
  CHECK(script.unknown == Nanoseconds{0});

  Script longer;  // never more than the time it overlapped
  longer.compute("k", 0, 0, 10'000);
  longer.gather(0, 10'000, 12'000);
  longer.compute("k", 0, 10'000, 25'000);
  CHECK(longer.causes() == Causes{{TimeCause::isolated_compute, 23'000}, {TimeCause::kernel_contention, 2'000}});
}

TEST_CASE("budget: without a twin that ran alone contention is not known, and is said") {
  Script script;
  script.gather(0, 0, 6'000);
  script.compute("k", 0, 0, 10'000);
  CHECK(script.causes() == Causes{{TimeCause::isolated_compute, 10'000}});
  CHECK(script.unknown == Nanoseconds{6'000});

  Script shapes;  // twins of one name but two lengths tell nothing
  shapes.compute("k", 0, 0, 10'000);
  shapes.compute("k", 0, 10'000, 50'000);
  shapes.gather(0, 50'000, 60'000);
  shapes.compute("k", 0, 50'000, 65'000);
  CHECK(shapes.causes() == Causes{{TimeCause::isolated_compute, 65'000}});
  CHECK(shapes.unknown == Nanoseconds{10'000});
}

TEST_CASE("budget: cudaMalloc, and waits before cudaFree, are the host's, and the allocator's part of it") {
  Script script;
  script.compute("a", 0, 0, 1'000);
  script.call("cudaEventSynchronize", 1'100, 1'500);
  script.call("cudaFree", 1'500, 1'900);
  script.call("cudaMalloc", 1'900, 2'400);
  script.call("cudaStreamSynchronize", 2'500, 2'600);  // nothing freed behind it: the program's own
  script.call("cudaLaunchKernel", 2'700, 2'710);
  script.call("cudaMallocHost", 2'720, 2'800);
  script.compute("b", 2'890, 2'900, 3'000);
  CHECK(script.causes() ==
        Causes{{TimeCause::isolated_compute, 1'100}, {TimeCause::host, 1'890}, {TimeCause::other, 10}});
  CHECK(script.allocator == Nanoseconds{1'300});
}

TEST_CASE("budget: a plan's wait before it gives segments back is the allocator's") {
  Script script;
  script.run.info.kind = RunKind::planned;
  script.run.phases[0].recording = Recording::run;
  script.compute("a", 10, 20, 1'000);
  script.compute("b", 2'500, 2'510, 3'000);
  script.run.allocator = {{AllocatorAction::segment_free, 4096, 512, kComputeStream, {2'400}, {}}};
  StepRecord step;
  step.end = {100'000};
  step.device_end = Nanoseconds{3'000};
  script.run.steps = {step};
  const auto comparison = compare_runs(script.run, script.run);
  REQUIRE(comparison);
  CHECK(comparison->a.time->allocator == Nanoseconds{1'400});  // of the gap from 1,000 to 2,400
}

TEST_CASE("budget: on any two runs the parts add up to the steps' times, to the nanosecond") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    const Run a = test::RandomRun(seed, seed % 2 == 0 ? RunKind::imported : RunKind::planned).make();
    const Run b = test::RandomRun(seed + 1000, seed % 3 == 0 ? RunKind::imported : RunKind::planned).make();
    const auto plain = compare_runs(a, b);
    REQUIRE(plain);
    if (!plain->a.time || !plain->b.time) continue;
    CHECK(total(plain->breakdown).a == plain->a.time->end - plain->a.time->begin);
    CHECK(total(plain->breakdown).b == plain->b.time->end - plain->b.time->begin);
    const auto reported = compare_runs(a, b, {.reported_a = Nanoseconds{123}, .reported_b = Nanoseconds{77'777'777}});
    REQUIRE(reported);
    CHECK(total(reported->breakdown).a == Nanoseconds{123});
    CHECK(total(reported->breakdown).b == Nanoseconds{77'777'777});
    for (const BreakdownRow& row : plain->breakdown) {
      CHECK(row.a.count >= 0);
      CHECK(row.b.count >= 0);
    }
  }
}

TEST_CASE(
    "budget: of a recording's side the plan at its own settings says the causes, and the rest is the model's bias") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    const Run recording = test::RandomRun(seed, RunKind::imported).make();
    const Run own = test::RandomRun(seed + 500, RunKind::planned).make();
    const Run other = test::RandomRun(seed + 1000, RunKind::planned).make();
    const auto own_against_other = compare_runs(own, other, {.reported_a = Nanoseconds{5'555}});
    CompareRequest request{.reported_a = Nanoseconds{123}, .model_a = &own, .reported_model = Nanoseconds{5'555}};
    const auto a = compare_runs(recording, other, request);
    request = {.reported_b = Nanoseconds{123}, .model_b = &own, .reported_model = Nanoseconds{5'555}};
    const auto b = compare_runs(other, recording, request);
    REQUIRE((own_against_other && a && b));
    if (!a->a.time || !a->b.time || !a->model) continue;
    CHECK(total(a->breakdown).a == Nanoseconds{123});
    CHECK(total(a->breakdown).b == a->b.time->end - a->b.time->begin);
    for (const TimeCause cause : kEnumValues<TimeCause>) {
      if (cause == TimeCause::model_bias) continue;
      const BreakdownRow plans = total(own_against_other->breakdown, cause);
      const BreakdownRow with = total(a->breakdown, cause);
      const BreakdownRow turned = total(b->breakdown, cause);
      CHECK(with.b - with.a == plans.b - plans.a);
      CHECK(turned.a - turned.b == plans.b - plans.a);
    }
    const BreakdownRow bias = total(a->breakdown, TimeCause::model_bias);
    CHECK(bias.b - bias.a == Nanoseconds{5'555 - 123});
    CHECK(total(a->bias).a == Nanoseconds{123});
    CHECK(total(a->bias).b == Nanoseconds{5'555});
    CHECK(total(b->bias).a == Nanoseconds{5'555});
    CHECK(total(b->breakdown).b == Nanoseconds{123});
  }
}
