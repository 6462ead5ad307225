// A plan, its calibration, and which side sets the step, on a workload small enough to reason about.
#include "sim/predict/predict.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "core/run/steady_step.hpp"
#include "sim/predict/busy_time.hpp"
#include "sim/predict/host_bound.hpp"
#include "sim/predict/plan_times.hpp"
#include "sim/predict/simulate.hpp"
#include "tests/property/timed_workload.hpp"

namespace foreshard::sim {
namespace {

using test::four_gpus;
using test::timed_workload;

MachineProfile h200() {
  return builtin_profile("h200").value();
}

Settings mixed_settings() {
  Settings s = four_gpus();
  s.param_dtype = DType::bfloat16;
  s.reduce_dtype = DType::float32;
  return s;
}

/// Host times times this; kernels stay.
void scale_host(Workload& w, double factor) {
  for (Program& program : w.steps)
    for (Op& op : program.ops) op.host_before = op.host_before.scaled(factor);
  for (SectionCost& cost : w.sections) {
    cost.host_after = cost.host_after.scaled(factor);
    for (SectionItem& item : cost.items) item.host_before = item.host_before.scaled(factor);
  }
}

Prediction plan(const Workload& w, const Settings& s) {
  auto p = predict(w, h200(), {s, {}, 4});
  INFO((p ? "" : p.error().text()));
  REQUIRE(p);
  return std::move(*p);
}

bool rests_on(const Prediction& plan, Basis basis) {
  return std::any_of(plan.interval.rests_on.begin(), plan.interval.rests_on.end(),
                     [&](const RestsOn& part) { return part.basis == basis; });
}

TEST_CASE("a plan is not valid by prices that were not measured, unless they are next to nothing") {
  ModelConfig model = *preset("llama-1b", {});
  model.layers = 2;
  Settings s = mixed_settings();
  s.batch = 1;
  s.seq = 2048;
  Workload w = *generate(model, s, {}, 132);
  w.process_groups = {{"default_pg", 4, 1}};
  w.has_timing = true;
  for (const auto& [bytes, valid] : {std::pair{Bytes{4}, true}, std::pair{64 * kMiB, false}}) {
    Workload with = w;
    Op op;
    op.kind = OpKind::collective;
    op.user_stream = 1;
    op.collective = {0, CollectiveKind::all_reduce, bytes};  // measured are those of other numbers of ranks
    for (Program& step : with.steps) step.ops.insert(step.ops.end() - 1, op);
    const Prediction p = plan(with, s);
    INFO(bytes << " " << fmt::format("{}", fmt::join(p.not_valid, "; ")));
    CHECK(p.valid == valid);
    CHECK(p.not_measured == (valid ? 0 : 1));
    const auto said = std::ranges::count_if(p.warnings, [](const std::string& text) {
      return text.starts_with("nccl all-reduce of 4 ranks") && text.ends_with(": next to nothing of a step");
    });
    CHECK(said == (valid ? 1 : 0));
  }
}

TEST_CASE("a GPU-bound capture is anchored to what it measured, and so are its plans") {
  Workload w = timed_workload(mixed_settings(), 4);
  scale_host(w, 0.1);
  const double simulated = plan(w, mixed_settings()).step_ms;
  w.measured = Measured{std::vector<double>(12, 1.02 * simulated), {}};
  const Prediction p = plan(w, mixed_settings());
  CHECK_FALSE(p.host_bound);
  CHECK(p.host_scale.anchor > 1);
  CHECK(p.step_ms == Approx(1.02 * simulated).epsilon(0.005));
  CHECK(p.exposed_communication_ms <= p.communication_ms);
  CHECK(p.compute_ms + p.exposed_communication_ms + p.idle_ms == Approx(p.step_ms).epsilon(1e-9));
  const StepRecord* step = timed_step(p.run);
  REQUIRE(step != nullptr);
  CHECK((*step->device_end - *step_before(p.run, *step)->device_end).ms() == p.step_ms);
  CHECK(timed_step_busy(p.run).compute.ms() == p.compute_ms);
  CHECK(timed_step_busy(p.run).exposed_communication.ms() == p.exposed_communication_ms);
}

TEST_CASE("a plan is the same on any number of threads") {
  const Workload w = timed_workload(mixed_settings(), 4);
  for (const std::optional<Bytes> limit : {std::optional<Bytes>(), std::optional<Bytes>(2 * kMiB)}) {
    PredictRequest request{mixed_settings(), limit};
    const auto one = predict(w, h200(), request);
    request.threads = 2;  // how host-bound it is, is found beside the step
    const auto two = predict(w, h200(), request);
    REQUIRE(one);
    REQUIRE(two);
    CHECK(one->out_of_memory.has_value() == limit.has_value());
    CHECK(one->step_ms == two->step_ms);
    CHECK(one->gpu_step_ms == two->gpu_step_ms);
    CHECK(one->host_ms == two->host_ms);
    CHECK(one->interval.low_ms == two->interval.low_ms);
    CHECK(one->interval.high_ms == two->interval.high_ms);
    CHECK(one->peaks == two->peaks);
    CHECK(one->warnings == two->warnings);
    CHECK(one->run.device_ops.size() == two->run.device_ops.size());
  }
}

TEST_CASE("a token of an odd sequence costs what one of the even sequence next to it does") {
  const auto ms_a_token = [](bool compiled, std::uint64_t seq) {
    ModelConfig model = *preset("llama-8b", {{}, 2});
    model.compiled = compiled;
    Settings s = mixed_settings();
    s.batch = 1;
    s.seq = seq;
    const auto w = generate(model, s, {}, 132);
    REQUIRE(w);
    return plan(*w, s).step_ms / static_cast<double>(seq);
  };
  for (const bool compiled : {false, true})
    CHECK(ms_a_token(compiled, 2369) == Approx(ms_a_token(compiled, 2368)).epsilon(0.02));
}

TEST_CASE("a capture that waited for a late rank is planned as if that rank kept up") {
  Workload w = timed_workload(mixed_settings(), 4);
  scale_host(w, 0.1);
  const double simulated = plan(w, mixed_settings()).step_ms;
  w.measured = Measured{std::vector<double>(12, 1.36 * simulated), {}};
  CHECK_FALSE(plan(w, mixed_settings()).valid);
  w.measured->late_rank = 5;
  const Prediction p = plan(w, mixed_settings());
  CHECK(p.valid);
  CHECK(p.host_scale.anchor == 1);
  CHECK(p.step_ms == Approx(simulated).epsilon(1e-9));
  CHECK(rests_on(p, Basis::anchor));
  CHECK(p.interval.high_ms < w.measured->steady_ms());
  CHECK(std::any_of(p.warnings.begin(), p.warnings.end(),
                    [](const std::string& text) { return text.starts_with("rank 5 was late in the recording"); }));
}

TEST_CASE("a recording's ranks with fewer tokens count with their own") {
  Workload w = timed_workload(mixed_settings(), 4);
  Settings s = mixed_settings();
  s.batch = w.settings.batch = 4;
  s.seq = w.settings.seq = 2048;
  const std::uint32_t world = s.world();
  REQUIRE(world == 4);
  const Prediction before = plan(w, s);
  const double alike = before.work;
  CHECK(alike == 4 * 2048);
  w.rank_shapes = {{0, 4, 2048}, {1, 4, 1024}, {2, 4, 2048}, {3, 4, 512}};
  const Prediction p = plan(w, s);
  CHECK(p.counts_ranks);
  CHECK(p.work == 4 * (2048 + 1024 + 2048 + 512) / 4);
  CHECK(p.step_ms == before.step_ms);
  // Of more ranks, and where another rank than the planned one has most, the plan is of ranks that are alike.
  Settings twice = s;
  twice.nodes = 2;
  CHECK_FALSE(plan(w, twice).counts_ranks);
  w.rank_shapes[1].seq = 4096;
  CHECK(plan(w, s).work == alike);
  w.measured = Measured{std::vector<double>(12, 2 * p.step_ms), {}};
  w.measured->late_rank = 1;
  const auto warnings = plan(w, s).warnings;
  CHECK(std::any_of(warnings.begin(), warnings.end(),
                    [](const std::string& text) { return text.starts_with("rank 1 had more work in the recording"); }));
  w.measured->late_itself = true;
  const Prediction late = plan(w, s);
  CHECK(late.with_more.empty());
  CHECK(std::any_of(late.warnings.begin(), late.warnings.end(),
                    [](const std::string& text) { return text.starts_with("rank 1 was late in the recording"); }));
}

TEST_CASE("a host-bound capture is not anchored: its host is made as fast as it was measured") {
  Workload w = timed_workload(mixed_settings(), 4);
  scale_host(w, 20);
  const Prediction raw = plan(w, mixed_settings());
  CHECK(raw.host_bound);
  CHECK(raw.host_scale.source == HostScale::Source::none);
  CHECK(raw.gpu_step_ms < raw.step_ms);
  w.measured = Measured{std::vector<double>(12, 0.8 * raw.step_ms), std::vector<double>(12, 0.8 * raw.host_ms)};
  const Prediction p = plan(w, mixed_settings());
  CHECK(p.host_bound);
  CHECK(p.host_scale.anchor == 1);
  CHECK(p.host_scale.factor == Approx(0.8).epsilon(0.03));
  CHECK(p.step_ms == Approx(0.8 * raw.step_ms).epsilon(0.03));
}

TEST_CASE("a host-bound capture that no speed of its host brings to the measured steps is not valid, and says so") {
  Workload w = timed_workload(mixed_settings(), 4);
  scale_host(w, 20);
  const double gpu = plan(w, mixed_settings()).gpu_step_ms;
  w.measured = Measured{std::vector<double>(12, 0.5 * gpu), {}};
  const Prediction p = plan(w, mixed_settings());
  CHECK(p.host_scale.source == HostScale::Source::steady);
  CHECK_FALSE(p.valid);
  const std::string said = fmt::format("simulate {:.1f} ms where {:.1f} ms were measured, however fast their host",
                                       p.host_scale.simulated_ms, 0.5 * gpu);
  INFO(fmt::format("{}", fmt::join(p.not_valid, "; ")));
  CHECK(std::ranges::any_of(p.not_valid, [&](const std::string& why) { return why.find(said) != std::string::npos; }));
}

TEST_CASE("one anchor is for all plans of a misfitting recording, and a small one for those that the GPU binds") {
  PredictionSpec spec;
  spec.anchor_range = 0.08;
  Prediction p;
  for (const bool host_bound : {false, true}) {
    p.host_bound = host_bound;
    p.host_scale.anchor = 1.36;
    CHECK(applied_anchor(spec, p) == 1.36);
    p.host_scale.anchor = 1.02;
    CHECK(applied_anchor(spec, p) == (host_bound ? 1 : 1.02));
  }
}

TEST_CASE("which side sets the step follows the host's own speed") {
  Workload w = timed_workload(mixed_settings(), 4);
  const auto side = [&](double scale) {
    const auto found = host_bound(w, mixed_settings(), h200(), scale);
    REQUIRE(found);
    CHECK(found->gpu_step_ms <= found->step_ms * 1.001);
    return *found;
  };
  const HostBound fast = side(0.05);
  const HostBound slow = side(30);
  CHECK_FALSE(fast.host_bound);
  CHECK(slow.host_bound);
  CHECK(slow.step_ms > fast.step_ms);
  CHECK(slow.gpu_step_ms == Approx(fast.gpu_step_ms).epsilon(0.001));  // a free host has no speed
}

TEST_CASE("how much slower a host may be is what makes the step longer, as simulated") {
  Workload w = timed_workload(mixed_settings(), 4);
  const double step_excess = h200().prediction.step_excess;
  const double scale = 0.05, range = 8;
  const auto bound = host_bound(w, mixed_settings(), h200(), scale, range, true);
  REQUIRE(bound);
  REQUIRE_FALSE(bound->host_bound);
  REQUIRE(bound->binds_from);
  REQUIRE(*bound->binds_from > 1);
  const auto step_ms = [&](double slower) { return host_bound(w, mixed_settings(), h200(), scale * slower)->step_ms; };
  CHECK(step_ms(*bound->binds_from) > step_excess * bound->step_ms);
  CHECK(step_ms(*bound->binds_from * 0.99) <= step_excess * bound->step_ms);
  CHECK_FALSE(host_bound(w, mixed_settings(), h200(), scale, range)->binds_from);       // not asked for
  CHECK_FALSE(host_bound(w, mixed_settings(), h200(), scale, 0.01, true)->binds_from);  // none that is so little slower
}

TEST_CASE("the steady step has the next step's gathers behind it, whatever the lowering") {
  Settings settings = mixed_settings();
  settings.reshard_after_forward.kind = Reshard::Kind::never;  // else the step's own all-gathers wait all along
  Workload w = timed_workload(settings, 4);
  const auto gaps_us = [&](Lowering lowering) {
    w.lowering = lowering;
    MachineProfile machine = h200();
    const auto step = [&](double gather_gap_us) {
      machine.latencies.kernel_gap_all_gather = Nanoseconds::from_double(gather_gap_us * 1e3);
      Run ignored;
      SimulationRequest request;
      request.steps = {.steps = 6, .record = false, .warm = true};
      request.options.host_free = true;
      const auto simulation = simulate(w, settings, machine, request, ignored);
      REQUIRE(simulation);
      const auto length = [&](std::size_t k) { return simulation->step_end[k] - simulation->step_end[k - 1]; };
      CHECK(simulation->steady == 4);
      CHECK(simulation->steady_step() == length(4));
      CHECK(length(4) == length(3));  // steps repeat one another, but for the last
      return simulation->steady_step().us();
    };
    return step(100) - step(1);
  };
  CHECK(gaps_us(Lowering::foreshard) > 0);
  CHECK(gaps_us(Lowering::pytorch) > 0);
}

TEST_CASE("of steps that differ the plan is the mean of a cycle, and has the memory of each") {
  Workload w = timed_workload(mixed_settings(), 4);
  scale_host(w, 0.1);
  const Program long_step = w.steps.back();
  Program short_step = long_step;
  for (Op& op : short_step.ops) {
    op.kernel.work = op.kernel.work.scaled(0.5);
    if (op.kind == OpKind::alloc && op.category == MemoryCategory::activations) op.size.bytes /= 2;
  }
  const auto only = [&](const Program& program) {
    w.steps.back() = program;
    return plan(w, mixed_settings());
  };
  const Prediction both[] = {only(long_step), only(short_step)};
  w.steps = {w.steps.front(), short_step, long_step};
  w.cycle = 2;
  for (const std::uint32_t seq : {64U, 32U, 64U, 32U, 64U, 32U}) w.recorded.push_back({1, seq, true});
  const Prediction p = plan(w, mixed_settings());
  CHECK(p.cycle == 2);
  CHECK(p.work == 48);
  CHECK(p.step_ms == Approx((both[0].step_ms + both[1].step_ms) / 2).epsilon(0.02));
  REQUIRE(p.steps.size() == 6);
  CHECK(p.steps[0].ms == 0);
  CHECK(p.steps[3].ms == Approx(both[1].step_ms).epsilon(0.05));
  CHECK(p.steps[4].ms == Approx(both[0].step_ms).epsilon(0.05));
  CHECK(p.steps[4].peaks.allocated > p.steps[3].peaks.allocated);
  CHECK(p.steps[5].peaks == p.peaks);

  // Ranks that differ are told of the same steps.
  PredictRequest slow;
  slow.settings = mixed_settings();
  slow.differences.ranks.push_back({.rank = 1, .kernels = 1.3});
  const auto ranks = predict(w, h200(), slow);
  REQUIRE(ranks);
  REQUIRE(ranks->stragglers);
  CHECK(ranks->stragglers->steps == 2);
  CHECK(ranks->stragglers->ranks.at(0).step.ms() == Approx(ranks->step_ms).epsilon(1e-6));

  for (RecordedStep& step : w.recorded) step.profiled = step.seq == 64;
  const Prediction scaled = plan(w, mixed_settings());
  REQUIRE_FALSE(scaled.interval.rests_on.empty());
  CHECK(scaled.interval.rests_on.back().basis == Basis::steps);
  CHECK(scaled.interval.rests_on.back().above == Approx(0.05));
  CHECK(scaled.interval.high_ms / scaled.step_ms > p.interval.high_ms / p.step_ms);
  CHECK(scaled.warnings.size() == p.warnings.size() + 1);

  // Measured steps alternate as well: their mean counts, and how far each is from those of its own size.
  w.measured = Measured{{}, {}, 2};
  for (int k = 0; k < 12; ++k) w.measured->step_ms.push_back(k % 2 == 0 ? 3 * p.step_ms : p.step_ms);
  const Prediction anchored = plan(w, mixed_settings());
  CHECK(anchored.host_scale.measured_ms == Approx(2 * p.step_ms));
  CHECK(anchored.host_scale.spread == Approx(0).margin(1e-9));
  CHECK(anchored.step_ms == Approx(2 * p.step_ms).epsilon(0.01));

  // Of steps that do not repeat the measured ones may be others.
  w.recorded.resize(3);
  const Prediction sample = plan(w, mixed_settings());
  CHECK(sample.host_scale.anchor == 1);
  CHECK(sample.step_ms == Approx(p.step_ms).epsilon(0.1));
  // The anchor is far from what runs of one speed need.
  CHECK(rests_on(anchored, Basis::anchor));
  CHECK_FALSE(anchored.valid);
  CHECK_FALSE(rests_on(sample, Basis::anchor));
  CHECK(rests_on(sample, Basis::steps));
}

TEST_CASE("out of memory in any of the steps that differ") {
  Workload w = test::small_workload(mixed_settings(), 3);
  Program larger = w.steps.back();
  for (Op& op : larger.ops)
    if (op.kind == OpKind::alloc && op.category == MemoryCategory::activations) op.size.bytes += 64 * kMiB;
  w.steps = {w.steps.front(), w.steps.back(), larger, w.steps.back()};
  w.recorded.resize(4);
  const Prediction fits = plan(w, mixed_settings());
  CHECK_FALSE(fits.out_of_memory);
  CHECK(fits.steps[2].peaks.reserved > fits.steps[1].peaks.reserved);
  const auto p = predict(w, h200(), {mixed_settings(), fits.steps[2].peaks.reserved - 16 * kMiB, 4});
  REQUIRE(p);
  CHECK(p->out_of_memory);
  CHECK(p->out_of_memory_step == 2);
  CHECK(p->steps.size() == 3);
}

TEST_CASE("without times a plan is of memory alone") {
  const Workload w = test::small_workload(mixed_settings(), 3);
  const Prediction p = plan(w, mixed_settings());
  CHECK_FALSE(p.has_time);
  CHECK(p.step_ms == 0);
  CHECK(p.peaks.requested > 0);
  CHECK(p.host_scale.source == HostScale::Source::none);
  CHECK(p.valid);
  Settings record = mixed_settings();
  record.release = Release::record_stream;
  const Prediction blind = plan(w, record);
  CHECK(blind.peaks_depend_on_time);
  CHECK_FALSE(blind.valid);
  CHECK(blind.run.info.valid == false);
  CHECK_FALSE(blind.warnings.empty());
}

TEST_CASE("how far the host's speed ranges is the profile's") {
  Settings settings = mixed_settings();
  settings.release = Release::record_stream;
  MachineProfile machine = h200();
  machine.prediction.host_speed_range = 0.25;
  const auto p = predict(timed_workload(mixed_settings(), 3), machine, {settings, {}, 4});
  REQUIRE(p);
  machine.prediction.host_speed_range = 0;
  const auto narrow = predict(timed_workload(mixed_settings(), 3), machine, {settings, {}, 4});
  REQUIRE(narrow);
  CHECK(p->least_peaks.active <= narrow->least_peaks.active);
  CHECK(p->most_peaks.active > narrow->most_peaks.active);
  CHECK(std::any_of(p->warnings.begin(), p->warnings.end(), [](const std::string& warning) {
    return warning.find("for hosts from 20 % faster to 25 % slower and ranks that begin apart") != std::string::npos;
  }));
}

TEST_CASE("a memory limit that is too small is an answer, not a failure") {
  const Workload w = timed_workload(mixed_settings(), 3);
  const auto p = predict(w, h200(), {mixed_settings(), 8 * kMiB, 4});
  REQUIRE(p);
  REQUIRE(p->out_of_memory);
  CHECK(p->out_of_memory->requested > 0);
  CHECK(p->step_ms == 0);
}

TEST_CASE("settings that a capture cannot tell are refused with the adapter's words") {
  const Workload w = timed_workload(mixed_settings(), 2);
  Settings other = mixed_settings();
  other.param_dtype = {};
  const auto refused = predict(w, h200(), {other, {}, 4});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind == ErrorKind::usage);
}

TEST_CASE("a section that no capture shows is said to be free") {
  Workload w = timed_workload(mixed_settings(), 2);
  std::erase_if(w.sections, [](const SectionCost& c) { return c.section == Section::reduce; });
  const Prediction p = plan(w, mixed_settings());
  CHECK_FALSE(p.valid);
  CHECK_FALSE(p.warnings.empty());
}

TEST_CASE("addresses that are not the recording's are said to be invented") {
  Workload w = test::small_workload(mixed_settings(), 3);
  CHECK_FALSE(plan(w, mixed_settings()).addresses_invented);  // nothing was recorded
  const Prediction base = plan(w, mixed_settings());
  for (const AllocatorRecord& e : base.run.allocator) {
    if (e.action != AllocatorAction::segment_alloc) continue;
    w.segment_addresses.push_back(e.address);
    w.segment_sizes.push_back(e.size);
  }
  CHECK_FALSE(plan(w, mixed_settings()).addresses_invented);
  w.segment_sizes.front() += 2 * kMiB;
  CHECK(plan(w, mixed_settings()).addresses_invented);
}

TEST_CASE("replicas that leave their leaf switch pay for it, shards within one do not") {
  const Workload w = timed_workload(mixed_settings(), 2);
  const auto step_ms = [&](double level_latency, std::uint32_t replicate, std::uint32_t nodes) {
    MachineProfile machine = h200();
    machine.network.leaf_nodes = 4;
    machine.network.level_latency = level_latency;
    Settings s = mixed_settings();
    s.nodes = nodes;
    s.replicate = replicate;
    const auto plan = predict(w, machine, {s, {}, 4});
    REQUIRE(plan);
    return plan->step_ms;
  };
  CHECK(step_ms(1000, 1, 4) == step_ms(0, 1, 4));
  CHECK(step_ms(1000, 4, 4) == step_ms(0, 4, 4));
  CHECK(step_ms(1000, 1, 8) > 1.5 * step_ms(0, 1, 8));
  CHECK(step_ms(1000, 4, 8) > 1.5 * step_ms(0, 4, 8));  // 4 nodes of 8, every other one
}

}  // namespace
}  // namespace foreshard::sim
