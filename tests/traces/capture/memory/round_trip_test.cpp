// Plan → recording → capture → the same workload, over settings and models (fsdp2 semantics 13).
#include <rapidcheck.h>

#include <set>

#include "core/adapt/adapt.hpp"
#include "core/models/generate.hpp"
#include "tests/core/adapt/small_program.hpp"
#include "tests/random_units.hpp"
#include "tests/traces/capture/memory/recording.hpp"
#include "traces/capture/capture.hpp"

namespace foreshard::traces::test {
namespace {

using foreshard::test::four_gpus;
using foreshard::test::small_workload;
using foreshard::test::text_of;

Result<Capture> capture(const Snapshot& snapshot, const Settings& settings, const std::vector<Unit>& units,
                        std::vector<std::vector<ParameterId>> param_groups = {}) {
  return read_capture({.snapshot = snapshot,
                       .initial_segments = {},
                       .settings = settings,
                       .units = units,
                       .sm_count = 132,
                       .optimizer_param_groups = std::move(param_groups),
                       .name = "captured"});
}

Settings mixed() {
  Settings s = four_gpus();
  s.param_dtype = DType::bfloat16;
  s.reduce_dtype = DType::float32;
  return s;
}

std::vector<std::pair<const char*, Settings>> settings_to_try() {
  std::vector<std::pair<const char*, Settings>> out;
  const auto with = [&](const char* name, auto change) {
    Settings s = mixed();
    change(s);
    out.emplace_back(name, s);
  };
  out.emplace_back("float32", four_gpus());
  with("mixed", [](Settings&) {});
  with("cast back", [](Settings& s) { s.reduce_dtype = {}; });
  with("async", [](Settings& s) { s.unshard_async = true; });
  with("prefetch", [](Settings& s) { s.forward_prefetch = s.backward_prefetch = 2; });
  with("no reshard", [](Settings& s) { s.reshard_after_forward = {Reshard::Kind::never, 0}; });
  with("int reshard", [](Settings& s) { s.reshard_after_forward = {Reshard::Kind::group, 2}; });
  with("root kept", [](Settings& s) { s.root_reshard_explicit = false; });
  with("HSDP", [](Settings& s) { s.replicate = 2; });
  with("one rank", [](Settings& s) { s.gpus = 1; });
  with("symmetric", [](Settings& s) { s.all_gather = Transport::copy_engine; });
  with("gather on compute", [](Settings& s) { s.gather_alloc = GatherAlloc::compute; });
  with("record_stream", [](Settings& s) { s.release = Release::record_stream; });
  with("accumulation", [](Settings& s) { s.accumulate = 3; });
  with("accumulation with sync", [](Settings& s) {
    s.accumulate = 2;
    s.accumulate_with_sync = true;
  });
  with("fused", [](Settings& s) { s.optimizer = Optimizer::adam_fused; });
  with("single", [](Settings& s) { s.optimizer = Optimizer::adam_single; });
  with("sgd", [](Settings& s) { s.optimizer = Optimizer::sgd; });
  return out;
}

TEST_CASE("a recording gives its workload back") {
  for (const auto& [name, settings] : settings_to_try()) {
    INFO(name);
    const Workload original = small_workload(settings, 3);
    const Recorded recorded = record(original, settings);
    const auto found = capture(recorded.snapshot, settings, original.units);
    INFO((found ? "" : found.error().text()));
    REQUIRE(found);
    const Workload& w = found->workload;
    CHECK(w.shards_known);
    CHECK(w.optimizer_known);
    CHECK(w.parameters_order == original.parameters_order);
    CHECK(text_of(w.setup) == text_of(original.setup));
    REQUIRE(w.steps.size() == 2);
    for (std::size_t i = 0; i < 2; ++i) CHECK(difference(text_of(w.steps[i]), text_of(original.steps[i])).empty());
    CHECK(difference(requests_of(record(w, settings).run), requests_of(recorded.run)).empty());
  }
}

TEST_CASE("a recording of gradients that are kept and zeroed says so, and repeats its requests") {
  for (Settings settings : {mixed(), four_gpus()}) {
    for (const std::uint32_t microbatches : {1U, 2U}) {
      settings.accumulate = microbatches;
      Settings kept = settings;
      kept.set_to_none = false;
      const Workload original = small_workload(kept, 3);
      const Recorded recorded = record(original, kept);
      const auto found = capture(recorded.snapshot, settings, original.units);
      INFO((found ? "" : found.error().text()));
      REQUIRE(found);
      CHECK(!found->workload.settings.set_to_none);
      CHECK(difference(requests_of(record(found->workload, kept).run), requests_of(recorded.run)).empty());
      const Recorded freed = record(small_workload(settings, 3), settings);
      const auto other = capture(freed.snapshot, settings, original.units);
      REQUIRE(other);
      CHECK(other->workload.settings.set_to_none);
      CHECK(!capture(freed.snapshot, kept, original.units));  // the about file says otherwise
    }
  }
}

TEST_CASE("a recording of units with several parameter groups gives its workload back") {
  std::vector<Unit> units = foreshard::test::small_units(3);
  for (Unit& unit : units)
    if (unit.parameters.size() == 2) unit.groups = {1, 1};
  for (const std::uint32_t most : {1U, 2U, 3U}) {
    INFO("K = " << most);
    Settings settings = mixed();
    settings.pytorch = "2.13";
    settings.reduce_scatter_max_input_buffers = most;
    const Workload original = small_workload(settings, units);
    const Recorded recorded = record(original, settings);
    const auto found = capture(recorded.snapshot, settings, original.units);
    INFO((found ? "" : found.error().text()));
    REQUIRE(found);
    CHECK(found->workload.optimizer_known);
    CHECK(found->workload.parameters_order == original.parameters_order);
    CHECK(difference(requests_of(record(found->workload, settings).run), requests_of(recorded.run)).empty());
    // As one group, the recording is another program's.
    CHECK(!capture(recorded.snapshot, settings, foreshard::test::small_units(3)));
  }
}

/// The small model whose optimizer has a group of the parameters that `first` holds of, and one of the others.
template <class First>
Workload in_two_groups(const Settings& settings, const std::vector<Unit>& units, First first) {
  Workload w = small_workload(settings, units);
  std::vector<const Parameter*> parameters;
  for (const Unit& unit : units)
    for (const Parameter& p : unit.parameters) parameters.push_back(&p);
  const auto second = std::stable_partition(w.parameters_order.begin(), w.parameters_order.end(),
                                            [&](ParameterId id) { return first(*parameters[id.value]); });
  w.optimizer_param_groups = {static_cast<std::uint32_t>(second - w.parameters_order.begin()),
                              static_cast<std::uint32_t>(w.parameters_order.end() - second)};
  return w;
}

bool decays(const Parameter& p) {
  return p.shape.size() > 1;
}
bool does_not_decay(const Parameter& p) {
  return !decays(p);
}
bool is_low(const Parameter& p) {
  return p.name.starts_with("layers.0");
}

TEST_CASE("a recording of an optimizer with two groups of parameters gives its workload back") {
  const std::vector<Unit> units = foreshard::test::small_units(3);
  for (const auto& [name, settings] : settings_to_try()) {
    if (settings.optimizer == Optimizer::sgd) continue;  // allocates nothing
    for (const auto first : {decays, does_not_decay, is_low}) {
      // Fused Adam's requests are the same where the groups follow one another as the parameters do.
      if (settings.optimizer == Optimizer::adam_fused && first == is_low) continue;
      INFO(name);
      const Workload original = in_two_groups(settings, units, first);
      const Recorded recorded = record(original, settings);
      const auto found = capture(recorded.snapshot, settings, units);
      INFO((found ? "" : found.error().text()));
      REQUIRE(found);
      CHECK(found->workload.optimizer_known);
      CHECK(found->workload.parameters_order == original.parameters_order);
      CHECK(found->workload.optimizer_param_groups == original.optimizer_param_groups);
      CHECK(difference(requests_of(record(found->workload, settings).run), requests_of(recorded.run)) == "");
      for (const Optimizer other : {Optimizer::adam, Optimizer::adam_fused, Optimizer::adam_single}) {
        Settings b = settings;
        b.optimizer = other;
        const auto adapted = adapt(found->workload, b);
        REQUIRE(adapted);
        CHECK(difference(requests_of(record(adapted->workload, b).run),
                         requests_of(record(in_two_groups(b, units, first), b).run)) == "");
      }
    }
  }
}

TEST_CASE("groups of parameters are seen behind the first step too") {
  const Workload original = in_two_groups(mixed(), foreshard::test::small_units(2), decays);
  Snapshot cut = record(original, original.settings).snapshot;
  const auto from = std::find_if(cut.annotations.begin(), cut.annotations.end(), [](const SnapshotAnnotation& a) {
    return a.start && a.name == "FSDP::pre_backward (layers.1)";
  });
  REQUIRE(from != cut.annotations.end());
  const std::int64_t time = from->time_us;
  std::erase_if(cut.events, [&](const AllocatorEvent& e) { return e.time_us < time; });
  std::erase_if(cut.annotations, [&](const SnapshotAnnotation& a) { return a.time_us < time; });
  const auto found = capture(cut, original.settings, original.units);
  INFO((found ? "" : found.error().text()));
  REQUIRE(found);
  CHECK(found->optimizer_began_before);
  CHECK(found->workload.optimizer_param_groups == original.optimizer_param_groups);
}

TEST_CASE("given groups of parameters are held against the recording") {
  const std::vector<Unit> units = foreshard::test::small_units(3);
  for (const Optimizer optimizer : {Optimizer::adam, Optimizer::adam_fused, Optimizer::sgd}) {
    Settings settings = mixed();
    settings.optimizer = optimizer;
    const Workload original = in_two_groups(settings, units, is_low);
    const auto cut = original.parameters_order.begin() + original.optimizer_param_groups.front();
    const std::vector<ParameterId> low(original.parameters_order.begin(), cut);
    const std::vector<ParameterId> others(cut, original.parameters_order.end());
    const Snapshot snapshot = record(original, settings).snapshot;
    const auto found = capture(snapshot, settings, units, {low, others});
    REQUIRE(found);
    CHECK(found->workload.optimizer_known);
    CHECK(found->workload.parameters_order == original.parameters_order);
    CHECK(found->workload.optimizer_param_groups == original.optimizer_param_groups);
    const auto other = capture(snapshot, settings, units, {others, low});
    REQUIRE(other);
    CHECK_FALSE(other->workload.optimizer_known);
    CHECK(other->workload.optimizer_param_groups.empty());
  }
}

TEST_CASE("a grouping that is not the recording's is not taken") {
  const std::vector<Unit> units = foreshard::test::small_units(3);
  const auto groups_of = [&](const Workload& original, Settings settings) {
    const auto found = capture(record(original, original.settings).snapshot, settings, units);
    REQUIRE(found);
    return std::pair(found->workload.optimizer_known, found->workload.optimizer_param_groups);
  };
  const std::vector<std::uint32_t> none;
  CHECK(groups_of(small_workload(mixed(), units), mixed()) == std::pair(true, none));
  // The requests of another optimizer.
  Settings single = mixed();
  single.optimizer = Optimizer::adam_single;
  CHECK(groups_of(in_two_groups(mixed(), units, decays), single) == std::pair(false, none));
  CHECK(groups_of(in_two_groups(single, units, decays), mixed()) == std::pair(false, none));
  // Groups that go through a unit backwards.
  Workload backwards = in_two_groups(mixed(), units, [](const Parameter& p) { return p.name == "norm"; });
  std::reverse(backwards.parameters_order.begin() + 1, backwards.parameters_order.end());
  CHECK(groups_of(backwards, mixed()) == std::pair(false, none));
}

TEST_CASE("a recording of experts split over ranks gives its workload back, and that of more ranks") {
  ModelConfig model;
  model.name = "small";
  model.family = ModelFamily::hf_mixtral;
  model.layers = 2;
  model.dim = 256;
  model.ffn = 512;
  model.heads = 4;
  model.kv_heads = 2;
  model.head_dim = 64;
  model.vocab = 1024;
  model.experts = 8;
  model.experts_per_token = 2;
  const std::pair<std::uint32_t, const char*> tried[] = {
      {1, "2.11"}, {2, "2.11"}, {4, "2.11"}, {2, "2.13"}, {4, "2.13"}};
  for (const auto& [ranks, version] : tried) {
    INFO("expert_parallel " << ranks << ", PyTorch " << version);
    Settings settings = mixed();
    settings.expert_parallel = ranks;
    settings.pytorch = version;
    settings.batch = 2;
    settings.seq = 64;
    settings.forward_prefetch = settings.backward_prefetch = 1;
    auto original = generate(model, settings, {}, 132);
    REQUIRE(original);
    original->initial_segments.clear();
    const Recorded recorded = record(*original, settings);
    const auto found = capture(recorded.snapshot, settings, original->units);
    INFO((found ? "" : found.error().text()));
    REQUIRE(found);
    CHECK(found->workload.shards_known);
    CHECK(found->workload.optimizer_known);
    CHECK(difference(requests_of(record(found->workload, settings).run), requests_of(recorded.run)) == "");
    Settings more = settings;
    more.gpus = 8;
    auto larger = generate(model, more, {}, 132);
    REQUIRE(larger);
    larger->initial_segments.clear();
    CHECK(difference(requests_of(record(found->workload, more).run), requests_of(record(*larger, more).run)) == "");
  }
}

/// Steps of 4/4, 3/4, 2/4, 3/4 of the tokens, twice over.
Workload varied_workload(const Settings& settings) {
  Workload w = small_workload(settings, 3);
  const Program steady = w.steps.back();
  const auto scaled = [](Program program, Bytes quarters) {
    for (Op& op : program.ops) {
      const bool tokens = op.category == MemoryCategory::activations || op.category == MemoryCategory::inputs;
      if (op.kind == OpKind::alloc && !op.gradient_of.valid() && tokens) op.size.bytes = op.size.bytes / 4 * quarters;
    }
    return program;
  };
  w.steps.resize(1);
  for (const Bytes quarters : {3, 2, 3, 4}) w.steps.push_back(scaled(steady, quarters));
  w.cycle = 4;
  return w;
}

TEST_CASE("steps that differ are all kept, at any settings") {
  constexpr std::int32_t kSteps = 8;
  const Workload original = varied_workload(mixed());
  const auto found = capture(record(original, mixed(), kSteps).snapshot, mixed(), original.units);
  INFO((found ? "" : found.error().text()));
  REQUIRE(found);
  const Workload& w = found->workload;
  CHECK(w.cycle == 4);
  CHECK(w.recorded.size() == kSteps);
  CHECK(w.steps.size() <= 6);  // the last ones repeat
  REQUIRE(found->stats.size() == 1);
  CHECK(found->stats.front().name == "different_steps");
  for (const auto& [name, settings] : settings_to_try()) {
    if (settings.accumulate > 1 || settings.param_dtype != mixed().param_dtype) continue;
    INFO(name);
    const auto adapted = adapt(w, settings);
    const auto wanted = adapt(original, settings);
    REQUIRE(adapted);
    REQUIRE(wanted);
    const auto requests = requests_of(record(adapted->workload, settings, kSteps).run);
    CHECK(difference(requests, requests_of(record(wanted->workload, settings, kSteps).run)).empty());
  }
}

TEST_CASE("the last all-gather result outlives the cast of the root's outputs") {
  Workload original = small_workload(mixed(), 2);
  for (Program& step : original.steps) {
    const auto root = std::find_if(step.ops.begin(), step.ops.end(), [](const Op& op) {
      return op.kind == OpKind::hook && op.hook == Hook::post_forward && op.unit == kRootUnit;
    });
    Op output;
    output.kind = OpKind::alloc;
    output.tensor = TensorId{900};
    output.size.bytes = 90'000;
    Op cast;
    cast.kind = OpKind::hook;
    cast.hook = Hook::outputs_cast;
    step.ops.insert(root + 1, {output, cast});
    Op free = output;
    free.kind = OpKind::free;
    step.ops.push_back(free);
  }
  const Recorded recorded = record(original, original.settings);
  const std::vector<std::string> requests = requests_of(recorded.run);
  const auto output = std::find_if(requests.begin(), requests.end(),
                                   [](const std::string& line) { return line.find(" 90000 ") != std::string::npos; });
  REQUIRE(output != requests.end());
  const auto found = capture(recorded.snapshot, original.settings, original.units);
  INFO((found ? "" : found.error().text()));
  REQUIRE(found);
  CHECK(difference(requests_of(record(found->workload, original.settings).run), requests).empty());
  const auto plain = small_workload(mixed(), 2);
  CHECK(found->workload.steps[1].ops.size() == plain.steps[1].ops.size() + 3);
}

TEST_CASE("gradients that no range frees are freed where the recording does") {
  const Workload original = small_workload(mixed(), 2);
  Recorded recorded = record(original, original.settings);
  std::erase_if(recorded.snapshot.annotations,
                [](const SnapshotAnnotation& a) { return a.name.starts_with("Optimizer.zero_grad"); });
  const auto found = capture(recorded.snapshot, original.settings, original.units);
  INFO((found ? "" : found.error().text()));
  REQUIRE(found);
  // Each step frees its own at its end, the last one too, where the recording stops before.
  const auto zero_grads = [](const Program& step) {
    return std::count_if(step.ops.begin(), step.ops.end(),
                         [](const Op& op) { return op.kind == OpKind::hook && op.hook == Hook::zero_grad; });
  };
  for (const Program& step : found->workload.steps) CHECK(zero_grads(step) == 2);
  std::vector<std::string> again = requests_of(record(found->workload, original.settings).run);
  const std::vector<std::string> once = requests_of(recorded.run);
  // One more free a unit: those of the last step.
  REQUIRE(again.size() == once.size() + original.units.size());
  for (std::size_t i = once.size(); i < again.size(); ++i) CHECK(again[i].starts_with("free"));
  again.resize(once.size());
  CHECK(difference(again, once).empty());
}

TEST_CASE("a step's own tensors that it frees behind its optimizer are freed in the last step too") {
  Workload original = small_workload(mixed(), 2);
  for (Program& step : original.steps) {  // a script's step() whose loss is gone once it returns
    Op loss;
    loss.kind = OpKind::alloc;
    loss.tensor = TensorId{900};
    loss.size.bytes = 90'000;
    const auto backward = std::find_if(step.ops.begin(), step.ops.end(), [](const Op& op) {
      return op.kind == OpKind::hook && op.hook == Hook::backward_begin;
    });
    step.ops.insert(backward, loss);
    loss.kind = OpKind::free;
    step.ops.push_back(loss);
  }
  const Recorded whole = record(original, original.settings);
  Snapshot cut = whole.snapshot;  // it ends with the last optimizer: behind it only the loss is freed
  for (const AllocatorAction action : {AllocatorAction::free_completed, AllocatorAction::free_requested}) {
    REQUIRE(cut.events.back().action == action);
    REQUIRE(cut.events.back().size >= 90'000);
    cut.events.pop_back();
  }
  const auto found = capture(cut, original.settings, original.units);
  INFO((found ? "" : found.error().text()));
  REQUIRE(found);
  CHECK(found->stats.empty());
  CHECK(found->workload.recorded.empty());
  const auto again = requests_of(record(found->workload, original.settings, 6).run);
  CHECK(difference(again, requests_of(record(original, original.settings, 6).run)) == std::string());
}

/// small_workload() whose zero_grad stands behind the forward, of these units or (none) of all, and in no range.
Workload with_late_zero_grad(const Settings& settings, const std::vector<UnitId>& units) {
  Workload workload = small_workload(settings, 2);
  for (Program& step : workload.steps) {
    const auto is = [](Hook hook) {
      return [hook](const Op& op) { return op.kind == OpKind::hook && op.hook == hook; };
    };
    std::erase_if(step.ops, is(Hook::zero_grad));
    const auto forward = std::find_if(step.ops.begin(), step.ops.end(), is(Hook::forward_end));
    REQUIRE(forward != step.ops.end());
    std::vector<Op> zero_grads(std::max<std::size_t>(units.size(), 1));
    for (std::size_t i = 0; i < zero_grads.size(); ++i) {
      zero_grads[i].kind = OpKind::hook;
      if (!units.empty()) zero_grads[i].unit = units[i];
    }
    step.ops.insert(forward + 1, zero_grads.begin(), zero_grads.end());
  }
  return workload;
}

/// Without places, and without inputs: with no zero_grad in front no range shows that they belong to a microbatch.
std::vector<std::string> requests_behind_inputs(const Workload& workload, const Settings& settings) {
  std::vector<std::string> out;
  for (const std::string& line : requests_of(record(workload, settings).run))
    if (line.find(" 1000 ") == std::string::npos) out.push_back(line.substr(0, line.find(" at ")));
  return out;
}

TEST_CASE("gradients that no range frees between forward and backward are freed there") {
  for (const std::vector<UnitId>& units : {std::vector<UnitId>{}, std::vector{UnitId{1}}}) {
    INFO((units.empty() ? "all units" : "one unit"));
    const Workload original = with_late_zero_grad(mixed(), units);
    Recorded recorded = record(original, original.settings);
    std::erase_if(recorded.snapshot.annotations,
                  [](const SnapshotAnnotation& a) { return a.name.starts_with("Optimizer.zero_grad"); });
    const auto found = capture(recorded.snapshot, original.settings, original.units);
    INFO((found ? "" : found.error().text()));
    REQUIRE(found);
    CHECK(difference(requests_of(record(found->workload, original.settings).run), requests_of(recorded.run)).empty());
    // Of several microbatches only the first frees what earlier steps left.
    Settings more = original.settings;
    more.accumulate = 3;
    const auto adapted = adapt(found->workload, more);
    INFO((adapted ? "" : adapted.error().text()));
    REQUIRE(adapted);
    const Workload wanted = with_late_zero_grad(more, units);
    CHECK(difference(requests_behind_inputs(adapted->workload, more), requests_behind_inputs(wanted, more)) ==
          std::string());
    for (const Program& step : adapted->workload.steps) {
      const auto zero_grads = std::count_if(step.ops.begin(), step.ops.end(), [](const Op& op) {
        return op.kind == OpKind::hook && op.hook == Hook::zero_grad;
      });
      CHECK(zero_grads <= 2);
    }
  }
}

TEST_CASE("a recording that begins inside a step is taken apart from the next one on") {
  const Workload original = small_workload(mixed(), 2);
  const Recorded recorded = record(original, original.settings);
  for (const char* name :
       {"FSDP::pre_backward (layers.1)", "FSDP::pre_forward (layers.0)", "FSDP::post_backward_accumulate (layers.1)"}) {
    INFO(name);
    Snapshot cut = recorded.snapshot;
    const auto from = std::find_if(cut.annotations.begin(), cut.annotations.end(),
                                   [&](const SnapshotAnnotation& a) { return a.start && a.name == name; });
    REQUIRE(from != cut.annotations.end());
    const std::int64_t time = from->time_us;
    std::erase_if(cut.events, [&](const AllocatorEvent& e) { return e.time_us < time; });
    std::erase_if(cut.annotations, [&](const SnapshotAnnotation& a) { return a.time_us < time; });
    const auto found = capture(cut, original.settings, original.units);
    INFO((found ? "" : found.error().text()));
    REQUIRE(found);
    CHECK_FALSE(found->workload.shards_known);
    CHECK(found->workload.steps.size() >= 1);
    CHECK(found->optimizer_began_before);
    // The last step's program is that of the whole recording, but for the optimizer's requests, which it keeps.
    const auto before_optimizer = [](const Program& step) {
      std::vector<std::string> lines = text_of(step);
      lines.erase(std::find(lines.begin(), lines.end(), fmt::format("hook {} -", int(Hook::optimizer_step))),
                  lines.end());
      return lines;
    };
    CHECK(difference(before_optimizer(found->workload.steps.back()), before_optimizer(original.steps.back())) ==
          std::string());
    CHECK(found->allocations.back().step == 3);
  }
}

TEST_CASE("a recording that ends inside a step is taken apart up to the one before") {
  const Workload original = small_workload(mixed(), 2);
  const Recorded recorded = record(original, original.settings);
  for (const char* name : {"FSDP::pre_backward (layers.1)", "FSDP::pre_forward (layers.0)", "FSDP::root_pre_forward"}) {
    INFO(name);
    Snapshot cut = recorded.snapshot;
    const auto last = std::find_if(cut.annotations.rbegin(), cut.annotations.rend(),
                                   [&](const SnapshotAnnotation& a) { return a.start && a.name == name; });
    REQUIRE(last != cut.annotations.rend());
    const std::int64_t time = last->time_us;
    std::erase_if(cut.events, [&](const AllocatorEvent& e) { return e.time_us > time; });
    std::erase_if(cut.annotations, [&](const SnapshotAnnotation& a) { return a.time_us > time; });
    const auto found = capture(cut, original.settings, original.units);
    INFO((found ? "" : found.error().text()));
    REQUIRE(found);
    CHECK(found->workload.optimizer_known);
    REQUIRE(found->workload.steps.size() >= 2);
    CHECK(difference(text_of(found->workload.steps[1]), text_of(original.steps[1])) == std::string());
    const auto allocations = std::count_if(cut.events.begin(), cut.events.end(),
                                           [](const AllocatorEvent& e) { return e.action == AllocatorAction::alloc; });
    CHECK(found->allocations.size() == static_cast<std::size_t>(allocations));
    CHECK(found->allocations.back().step == 3);
  }
}

TEST_CASE("gradients and input casts are told from the user's other blocks") {
  const Workload original = small_workload(mixed(), 2);
  const auto found = capture(record(original, original.settings).snapshot, original.settings, original.units);
  REQUIRE(found);
  const auto facts = [](const Program& program) {
    std::vector<std::string> lines;
    for (const Op& op : program.ops)
      if (op.kind == OpKind::alloc)
        lines.push_back(fmt::format("{} gradient {} cast {}", op.size.bytes, op.gradient_of.value, op.unit.value));
    return lines;
  };
  CHECK(difference(facts(found->workload.steps[1]), facts(original.steps[1])).empty());
}

std::vector<std::string> names_of(const std::vector<Unit>& units) {
  std::vector<std::string> names;
  for (const Unit& unit : units)
    for (const Parameter& p : unit.parameters) names.push_back(p.name);
  return names;
}

Settings random_settings() {
  Settings s = mixed();
  s.gpus = *rc::gen::element(2U, 4U);
  if (s.gpus == 4 && *rc::gen::inRange(0, 3) == 0) s.replicate = 2;
  s.unshard_async = *rc::gen::inRange(0, 3) == 0;
  if (*rc::gen::arbitrary<bool>()) s.forward_prefetch = *rc::gen::inRange(0U, 4U);
  if (*rc::gen::arbitrary<bool>()) s.backward_prefetch = *rc::gen::inRange(0U, 4U);
  s.reshard_after_forward.kind = *rc::gen::element(Reshard::Kind::always, Reshard::Kind::never);
  if (s.shard_ranks() == 4 && *rc::gen::inRange(0, 3) == 0) s.reshard_after_forward = {Reshard::Kind::group, 2};
  s.root_reshard_explicit = *rc::gen::arbitrary<bool>();
  s.all_gather = *rc::gen::element(Transport::nccl, Transport::copy_engine);
  s.optimizer = *rc::gen::element(Optimizer::adam, Optimizer::adam_fused, Optimizer::adam_single, Optimizer::sgd);
  s.accumulate = *rc::gen::inRange(1U, 4U);
  return s;
}

TEST_CASE("a capture at any settings plans any other as the program itself would run") {
  const bool holds = rc::check("capture(A) planned at B is the program at B", [] {
    const std::vector<Unit> units = foreshard::test::random_units({1, 40}, {1, 3000});
    const Settings a = random_settings();
    Settings b = random_settings();
    b.gpus = a.gpus;
    if (b.gpus / b.replicate != a.gpus / a.replicate) b.replicate = a.replicate;
    if (b.reshard_after_forward.kind == Reshard::Kind::group && b.shard_ranks() != 4) b.reshard_after_forward = {};
    const auto found = capture(record(small_workload(a, units), a).snapshot, a, units);
    if (!found) RC_FAIL(found.error().text());
    RC_ASSERT(found->workload.optimizer_known);
    const auto adapted = adapt(found->workload, b);
    if (!adapted) RC_FAIL(adapted.error().text());
    const std::string wrong =
        difference(requests_of(record(adapted->workload, b).run), requests_of(record(small_workload(b, units), b).run));
    if (!wrong.empty()) RC_FAIL(wrong);
  });
  CHECK(holds);
}

TEST_CASE("groups that are found plan any other settings as the program itself would run") {
  const bool holds = rc::check("capture(A) of two groups planned at B is the program at B", [] {
    std::vector<Unit> units = foreshard::test::random_units({1, 40}, {1, 3000});
    for (Unit& unit : units)
      for (Parameter& p : unit.parameters) p.name = fmt::format("{}.{}", unit.name, p.name);
    Settings a = random_settings();
    a.optimizer = *rc::gen::element(Optimizer::adam, Optimizer::adam_single);  // whose requests show the groups
    const std::vector<std::string> names = names_of(units);
    std::set<std::string> in_first;
    for (const std::string& name : names)
      if (*rc::gen::arbitrary<bool>()) in_first.insert(name);
    const auto first = [&](const Parameter& p) { return in_first.contains(p.name); };
    RC_PRE(!in_first.empty() && in_first.size() < names.size());
    const auto found = capture(record(in_two_groups(a, units, first), a).snapshot, a, units);
    if (!found) RC_FAIL(found.error().text());
    // Shards of one size can be taken for one another's, which zero_grad's order may contradict.
    RC_PRE(found->workload.optimizer_known);
    Settings b = a;
    b.optimizer = *rc::gen::element(Optimizer::adam, Optimizer::adam_fused, Optimizer::adam_single);
    const auto adapted = adapt(found->workload, b);
    if (!adapted) RC_FAIL(adapted.error().text());
    const std::string wrong = difference(requests_of(record(adapted->workload, b).run),
                                         requests_of(record(in_two_groups(b, units, first), b).run));
    if (!wrong.empty()) RC_FAIL(wrong);
  });
  CHECK(holds);
}

}  // namespace
}  // namespace foreshard::traces::test
