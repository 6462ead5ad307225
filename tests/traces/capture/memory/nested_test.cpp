// Units inside units, as scripts wrap halves of blocks (tools/record_check/styles.py, wraps_halves): plan → recording →
// capture → the same workload. The recording is synthetic (recording.hpp): it stands on FSDP2's rules as core/fsdp has
// them and on the order of Module.parameters and Module._apply as PyTorch 2.11's source has it, not on a run.
#include "core/adapt/adapt.hpp"
#include "tests/core/adapt/small_program.hpp"
#include "tests/traces/capture/memory/recording.hpp"
#include "traces/capture/capture.hpp"

namespace foreshard::traces::test {
namespace {

using foreshard::test::four_gpus;
using foreshard::test::parameters_of;
using foreshard::test::ProgramWriter;

/// Attention and a list of the feed-forward's weights are units of a block that keeps its norms; the embedding is one
/// of its own; the root has a norm and a parameter of its own, which fully_shard flattens behind the norm's.
std::vector<Unit> nested_units(DType norms = DType::float32) {
  std::vector<Unit> units{{"", {{"norm.weight", {48}, norms}, {"scale", {24}, DType::float32}}},
                          {"tok", {{"tok.weight", {64, 8}, DType::float32}}}};
  for (int i = 0; i < 2; ++i) {
    const std::string block = fmt::format("layers.{}", i);
    units.push_back({block, {{block + ".norm1.weight", {48}, norms}, {block + ".norm2.weight", {48}, norms}}});
    units.push_back(
        {block + ".attn",
         {{block + ".attn.q.weight", {16, 8}, DType::float32}, {block + ".attn.o.weight", {16, 8}, DType::float32}}});
    units.push_back(
        {fmt::format("{0}.w1, {0}.w2", block),
         {{block + ".w1.weight", {32, 8}, DType::float32}, {block + ".w2.weight", {32, 8}, DType::float32}}});
  }
  return units;
}

/// ParameterIds of nested_units() in the order of model.parameters(): norm1 before attention, norm2 behind it.
const std::vector<std::uint32_t> kParameters{1, 2, 3, 5, 6, 4, 7, 8, 9, 11, 12, 10, 13, 14, 0};
/// And of Module._apply: the root's own parameter last.
const std::vector<std::uint32_t> kApply{2, 3, 5, 6, 4, 7, 8, 9, 11, 12, 10, 13, 14, 0, 1};

void write_forward(ProgramWriter& w) {
  w.hook(Hook::pre_forward, kRootUnit);
  w.hook(Hook::pre_forward, UnitId{1});
  w.alloc("embedded", 40'000);
  w.hook(Hook::post_forward, UnitId{1});
  for (const std::uint32_t block : {2U, 5U}) {
    w.hook(Hook::pre_forward, UnitId{block});
    for (const std::uint32_t half : {block + 1, block + 2}) {
      w.hook(Hook::pre_forward, UnitId{half});
      w.alloc(fmt::format("saved {}", half), 20'000 + half);
      w.hook(Hook::post_forward, UnitId{half});
    }
    w.hook(Hook::post_forward, UnitId{block});
  }
  w.hook(Hook::post_forward, kRootUnit);
}

void write_backward(ProgramWriter& w, const std::vector<UnitPlan>& plans) {
  const auto gradients = [&](std::uint32_t unit) {
    for (const ParameterPlan& p : parameters_of(plans[unit])) w.gradient(p.id, p.gradient);
  };
  w.hook(Hook::pre_backward, kRootUnit);
  gradients(0);
  for (const std::uint32_t block : {5U, 2U}) {
    w.hook(Hook::pre_backward, UnitId{block});
    for (const std::uint32_t half : {block + 2, block + 1}) {
      w.hook(Hook::pre_backward, UnitId{half});
      w.free(fmt::format("saved {}", half));
      gradients(half);
      w.hook(Hook::post_backward, UnitId{half});
    }
    gradients(block);
    w.hook(Hook::post_backward, UnitId{block});
  }
  w.hook(Hook::pre_backward, UnitId{1});
  w.free("embedded");
  gradients(1);
  w.hook(Hook::post_backward, UnitId{1});
}

Program nested_step(const std::vector<UnitPlan>& plans) {
  ProgramWriter w;
  for (const Hook hook : {Hook::zero_grad, Hook::microbatch_begin, Hook::forward_begin}) w.hook(hook);
  write_forward(w);
  for (const Hook hook : {Hook::forward_end, Hook::backward_begin}) w.hook(hook);
  write_backward(w, plans);
  for (const Hook hook : {Hook::backward_final, Hook::backward_end, Hook::microbatch_end, Hook::optimizer_begin,
                          Hook::optimizer_step, Hook::optimizer_end})
    w.hook(hook);
  return w.program;
}

Program nested_setup(const std::vector<UnitPlan>& plans) {
  std::map<std::uint32_t, Bytes> shards;
  for (const UnitPlan& plan : plans)
    for (const ParameterPlan& p : parameters_of(plan)) shards[p.id.value] = p.shard;
  ProgramWriter w;
  for (const std::uint32_t id : kApply) {
    w.alloc(fmt::format("shard {}", id), shards[id], MemoryCategory::parameters);
    w.program.ops.back().size = {AllocationSize::Kind::local_shard, shards[id], ParameterId{id}};
  }
  return w.program;
}

Workload nested_workload(const Settings& settings, const std::vector<Unit>& units) {
  Workload w;
  w.sm_count = 132;
  w.name = "nested";
  w.settings = settings;
  w.units = units;
  const auto plans = plan_units(settings, units, w.sm_count).value();
  w.setup = nested_setup(plans);
  w.steps.assign(2, nested_step(plans));
  w.shards_known = w.optimizer_known = true;
  for (const std::uint32_t id : kParameters) w.parameters_order.push_back(ParameterId{id});
  return w;
}

Result<Capture> take_apart(const Snapshot& snapshot, const Settings& settings, const std::vector<Unit>& units) {
  return read_capture({.snapshot = snapshot,
                       .initial_segments = {},
                       .settings = settings,
                       .units = units,
                       .sm_count = 132,
                       .name = "captured"});
}

/// Names as of a recording without an about file: by unit and place.
std::vector<Unit> without_names(std::vector<Unit> units) {
  for (Unit& unit : units)
    for (std::size_t i = 0; i < unit.parameters.size(); ++i)
      unit.parameters[i].name = unit.name.empty() ? fmt::format("p{}", i) : fmt::format("{}.p{}", unit.name, i);
  return units;
}

TEST_CASE("the optimizer of units inside units goes through them as model.parameters() does") {
  for (const Optimizer optimizer : {Optimizer::adam, Optimizer::adam_fused, Optimizer::adam_single}) {
    Settings settings = four_gpus();
    settings.optimizer = optimizer;
    const Workload original = nested_workload(settings, nested_units());
    const Recorded recorded = record(original, settings);
    const auto found = take_apart(recorded.snapshot, settings, original.units);
    INFO((found ? "" : found.error().text()));
    REQUIRE(found);
    CHECK(found->workload.shards_known);
    CHECK(found->workload.optimizer_known);
    CHECK(found->workload.optimizer_param_groups.empty());
    CHECK(found->workload.parameters_order == original.parameters_order);
    CHECK(difference(requests_of(record(found->workload, settings).run), requests_of(recorded.run)) == "");
    for (const Optimizer other : {Optimizer::adam, Optimizer::adam_fused, Optimizer::adam_single}) {
      Settings b = settings;
      b.optimizer = other;
      b.gpus = 8;
      const auto adapted = adapt(found->workload, b);
      REQUIRE(adapted);
      CHECK(difference(requests_of(record(adapted->workload, b).run),
                       requests_of(record(nested_workload(b, nested_units()), b).run)) == "");
    }
  }
}

TEST_CASE("parameters that shard_placement_fn cuts along another dimension") {
  std::vector<Unit> units = nested_units();
  for (Unit& unit : units)
    for (Parameter& p : unit.parameters)
      if (p.shape.size() == 2 && !p.name.ends_with("o.weight")) p.shard_dim = 1;
  Settings settings = four_gpus();
  settings.param_dtype = DType::bfloat16;
  settings.reduce_dtype = DType::float32;
  const Workload original = nested_workload(settings, units);
  const Recorded recorded = record(original, settings);
  const auto found = take_apart(recorded.snapshot, settings, units);
  INFO((found ? "" : found.error().text()));
  REQUIRE(found);
  CHECK(difference(requests_of(record(found->workload, settings).run), requests_of(recorded.run)) == "");
  settings.reshard_after_forward = {Reshard::Kind::never, 0};
  settings.gpus = 8;
  const auto adapted = adapt(found->workload, settings);
  REQUIRE(adapted);
  CHECK(difference(requests_of(record(adapted->workload, settings).run),
                   requests_of(record(nested_workload(settings, units), settings).run)) == "");
  CHECK_FALSE(take_apart(recorded.snapshot, four_gpus(), nested_units()));  // without their dimensions
}

TEST_CASE("without names a root's own parameters are not told from its norm's, all else is") {
  const Settings settings = four_gpus();
  const Recorded recorded = record(nested_workload(settings, nested_units()), settings);
  const auto found = take_apart(recorded.snapshot, settings, without_names(nested_units()));
  REQUIRE(found);
  CHECK_FALSE(found->workload.optimizer_known);
  Workload plain = nested_workload(settings, nested_units());
  plain.parameters_order.clear();  // as if `scale` were a module behind the norm
  for (const std::uint32_t id : kApply) plain.parameters_order.push_back(ParameterId{id});
  const auto other = take_apart(record(plain, settings).snapshot, settings, without_names(nested_units()));
  REQUIRE(other);
  CHECK(other->workload.optimizer_known);
  CHECK(other->workload.parameters_order == plain.parameters_order);
}

TEST_CASE("parameters of two dtypes make their optimizer's temporaries dtype by dtype") {
  Settings settings = four_gpus();
  const Workload original = nested_workload(settings, nested_units(DType::bfloat16));
  const Recorded recorded = record(original, settings);
  const auto found = take_apart(recorded.snapshot, settings, original.units);
  INFO((found ? "" : found.error().text()));
  REQUIRE(found);
  CHECK(found->workload.optimizer_known);
  CHECK(found->workload.parameters_order == original.parameters_order);
}

}  // namespace
}  // namespace foreshard::traces::test
