// How memory must answer to the settings: properties that follow from FSDP2's rules for any model.
#include <map>

#include "core/step/step_runner.hpp"
#include "tests/contract/scripted_device.hpp"
#include "tests/property/timed_workload.hpp"

namespace foreshard::test {
namespace {

struct Ran {
  StepOutcome outcome;
  Run run;
};

Ran ran(const Workload& w, const Settings& s) {
  ScriptedDevice device;
  ScriptedMemory memory(64 * kGiB);
  Ran out;
  auto outcome = run_steps(w, s, {}, device, memory, out.run);
  RC_ASSERT(outcome.has_value());
  RC_ASSERT(!outcome->out_of_memory);
  out.outcome = std::move(*outcome);
  return out;
}

/// Highest sum of live requested bytes of one category.
Bytes peak_of(const Run& run, MemoryCategory category) {
  Bytes live = 0;
  Bytes peak = 0;
  for (const AllocatorRecord& e : run.allocator) {
    if (!e.block.valid() || run.blocks[e.block.value].category != category) continue;
    if (e.action == AllocatorAction::alloc) peak = std::max(peak, live += e.size);
    if (e.action == AllocatorAction::free_requested) live -= e.size;
  }
  return peak;
}

Workload random_workload() {
  std::vector<Unit> units;
  const int count = *rc::gen::inRange(2, 8);
  for (int u = 0; u < count; ++u) {
    Unit unit{u == 0 ? "" : fmt::format("layers.{}", u - 1), {}};
    const int parameters = *rc::gen::inRange(1, 4);
    for (int p = 0; p < parameters; ++p)
      unit.parameters.push_back({fmt::format("p{}", p),
                                 {*rc::gen::inRange<std::int64_t>(1, 64), *rc::gen::inRange<std::int64_t>(1, 4000)},
                                 DType::float32});
    units.push_back(unit);
  }
  Settings s = four_gpus();
  s.param_dtype = DType::bfloat16;
  s.reduce_dtype = DType::float32;
  return small_workload(s, units);
}

TEST_CASE("a deeper forward prefetch never holds less in gather buffers") {
  CHECK(rc::check("gather buffers grow with depth", [] {
    const Workload w = random_workload();
    Settings s = w.settings;
    Bytes before = peak_of(ran(w, s).run, MemoryCategory::gather_buffers);
    for (std::uint32_t depth = 1; depth <= 4; ++depth) {
      s.forward_prefetch = depth;
      const Bytes now = peak_of(ran(w, s).run, MemoryCategory::gather_buffers);
      RC_ASSERT(now >= before);
      before = now;
    }
  }));
}

TEST_CASE("keeping parameters after forward never holds fewer of them") {
  CHECK(rc::check("unsharded parameters: reshard <= keep", [] {
    const Workload w = random_workload();
    Settings s = w.settings;
    const Bytes reshard = peak_of(ran(w, s).run, MemoryCategory::unsharded_parameters);
    s.root_reshard_explicit = false;
    const Bytes root_kept = peak_of(ran(w, s).run, MemoryCategory::unsharded_parameters);
    s.root_reshard_explicit = true;
    s.reshard_after_forward = {Reshard::Kind::never, 0};
    const Bytes kept = peak_of(ran(w, s).run, MemoryCategory::unsharded_parameters);
    RC_ASSERT(reshard <= root_kept);
    RC_ASSERT(root_kept <= kept);
    Bytes all = 0;
    const std::vector<UnitPlan> plans = plan_units(s, w.units, 132).value();
    for (const UnitPlan& plan : plans)
      for (const ParamGroupPlan& group : plan.groups)
        for (const ParameterPlan& p : group.parameters) all += p.unsharded;
    RC_ASSERT(kept == all);
  }));
}

TEST_CASE("fused Adam and SGD never need more than foreach Adam but for the step scalars") {
  CHECK(rc::check("optimizers ordered by what they hold", [] {
    const Workload w = random_workload();
    Settings s = w.settings;
    const auto held = [&](Optimizer optimizer) {
      s.optimizer = optimizer;
      const Run run = ran(w, s).run;
      return std::pair{peak_of(run, MemoryCategory::optimizer_state),
                       peak_of(run, MemoryCategory::optimizer_temporaries)};
    };
    const auto [state, temporaries] = held(Optimizer::adam);
    RC_ASSERT(state == 2 * temporaries);
    RC_ASSERT(held(Optimizer::adam_fused) == std::pair(state + 4 * w.parameters_order.size(), Bytes{0}));
    RC_ASSERT(held(Optimizer::sgd) == std::pair(Bytes{0}, Bytes{0}));
    RC_ASSERT(held(Optimizer::adam_single).second <= 3 * temporaries);
  }));
}

TEST_CASE("peaks are ordered, steady, and no block is ever freed twice or leaked") {
  CHECK(rc::check("books balance", [] {
    const Workload w = random_workload();
    Settings s = random_settings();
    s.cuda_graph.reset();  // whose inputs and generator's state stay
    const Ran r = ran(w, s);
    for (const StepOutcome::Step& step : r.outcome.steps) {
      RC_ASSERT(step.peaks.requested <= step.peaks.allocated);
      RC_ASSERT(step.peaks.allocated <= step.peaks.active);
      RC_ASSERT(step.peaks.active <= step.peaks.reserved);
    }
    std::map<std::uint32_t, int> frees;
    Bytes persistent = 0;
    for (const AllocatorRecord& e : r.run.allocator) {
      if (e.action == AllocatorAction::alloc) persistent += e.size;
      if (e.action != AllocatorAction::free_requested) continue;
      RC_ASSERT(e.block.valid());
      RC_ASSERT(++frees[e.block.value] == 1);
      persistent -= e.size;
    }
    Bytes expected = kWorkspace;
    for (std::size_t b = 0; b < r.run.blocks.size(); ++b) {
      const BlockRecord& block = r.run.blocks[b];
      const bool last_gradients = block.category == MemoryCategory::sharded_gradients && block.step == 3;
      const bool array = block.category == MemoryCategory::metadata && !frees.contains(static_cast<std::uint32_t>(b));
      if (block.category == MemoryCategory::parameters || block.category == MemoryCategory::optimizer_state ||
          last_gradients || array)
        expected += block.requested;
    }
    RC_ASSERT(persistent == expected);
    RC_ASSERT(r.outcome.steps[2].peaks == r.outcome.steps[3].peaks);
  }));
}

}  // namespace
}  // namespace foreshard::test
