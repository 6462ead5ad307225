// A recording that was made at known settings gives them back (the recording is that of the round-trip tests of
// traces/capture, with the ranges of FSDP's sections).
#include <rapidcheck.h>

#include <algorithm>

#include "core/fsdp/unit_plan.hpp"
#include "core/settings/settings_table.hpp"
#include "tests/core/adapt/small_program.hpp"
#include "tests/random_units.hpp"
#include "tests/traces/capture/memory/recording.hpp"
#include "traces/infer/fitted_buffers.hpp"
#include "traces/infer/fitted_optimizer.hpp"

namespace foreshard::traces::test {
namespace {

using foreshard::test::four_gpus;
using foreshard::test::small_workload;

/// The snapshot with the ranges in which FSDP gathers, copies out, reduces and prefetches.
Snapshot with_sections(const Recorded& recorded, const Settings& settings, const std::vector<Unit>& units) {
  Snapshot snapshot = recorded.snapshot;
  std::vector<SnapshotAnnotation> all = snapshot.annotations;
  for (const HostOpRecord& op : recorded.run.host_ops) {
    const std::string& name = recorded.run.labels.text(op.label);
    if (!name.starts_with("FSDP::all_gather") && !name.starts_with("FSDP::post_backward_reduce")) continue;
    all.push_back({true, name, 0, op.start.count / 1000});
    all.push_back({false, name, 0, op.end.count / 1000});
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.time_us < b.time_us; });
  const auto plans = plan_units(settings, units, 132);
  REQUIRE(plans);
  snapshot.annotations.clear();
  for (const SnapshotAnnotation& a : all) {
    snapshot.annotations.push_back(a);
    for (std::size_t u = 0; u < units.size() && !a.start; ++u) {
      const std::string suffix = units[u].name.empty() ? "" : " (" + units[u].name + ")";
      const auto prefetch = [&](const char* hook, const std::vector<UnitId>& targets, const char* range) {
        if (a.name != hook + suffix) return;
        for (const UnitId target : targets)
          for (const bool start : {true, false})
            snapshot.annotations.push_back({start, range + units[target.value].name, 0, a.time_us});
      };
      prefetch("FSDP::pre_forward", (*plans)[u].forward_prefetch, "FSDP::forward_prefetch for ");
      prefetch("FSDP::pre_backward", (*plans)[u].backward_prefetch, "FSDP::backward_prefetch for ");
    }
  }
  return snapshot;
}

std::vector<Range> ranges_of(const Snapshot& snapshot) {
  std::vector<Range> ranges;
  std::vector<std::size_t> open;
  for (const SnapshotAnnotation& a : snapshot.annotations) {
    if (a.start) {
      open.push_back(ranges.size());
      ranges.push_back({a.name, Nanoseconds::from_us(a.time_us), Nanoseconds::from_us(a.time_us)});
      continue;
    }
    const auto it = std::find_if(open.rbegin(), open.rend(), [&](std::size_t i) { return ranges[i].name == a.name; });
    if (it == open.rend()) continue;
    ranges[*it].end = Nanoseconds::from_us(a.time_us);
    open.erase(std::next(it).base());
  }
  return ranges;
}

Inference inferred_of(const Snapshot& snapshot) {
  const std::vector<Range> ranges = ranges_of(snapshot);
  Inference found = infer({snapshot, capture_events(snapshot.events, 0), ranges});
  if (!found.why_not.empty()) return found;
  CaptureInput input{
      .snapshot = snapshot, .initial_segments = {}, .settings = found.settings, .units = found.units, .sm_count = 132};
  (void)fit_buffers(input, found);
  fit_optimizer(input, ranges, found);
  return found;
}

Inference inferred(const Workload& original, const Settings& settings) {
  return inferred_of(with_sections(record(original, settings), settings, original.units));
}

/// Settings that leave the same requests behind, in one form.
Settings canonical(Settings s, std::size_t units) {
  const auto shorten = [&](std::optional<std::uint32_t>& depth, std::size_t longest) {
    if (depth) depth = static_cast<std::uint32_t>(std::min<std::size_t>(*depth, longest));
    if (depth == 0U) depth.reset();
  };
  // Of n units the first block has n − 2 behind it, and the last as many in front.
  shorten(s.forward_prefetch, units - 2);
  shorten(s.backward_prefetch, units - 2);
  if (s.reshard_after_forward.kind == Reshard::Kind::never) s.root_reshard_explicit = true;
  if (s.all_gather == Transport::copy_engine) s.all_gather = Transport::symmetric;  // a snapshot alone
  if (s.accumulate == 1) s.accumulate_with_sync = false;
  return s;
}

std::string difference_of(const Settings& a, const Settings& b) {
  const auto left = setting_options(a);
  const auto right = setting_options(b);
  for (std::size_t i = 0; i < left.size(); ++i)
    if (left[i] != right[i]) return fmt::format("{}: {} and {}", left[i].first, left[i].second, right[i].second);
  return {};
}

std::string difference_of(const std::vector<Unit>& found, const std::vector<Unit>& made) {
  if (found.size() != made.size()) return fmt::format("{} and {} units", found.size(), made.size());
  for (std::size_t u = 0; u < made.size(); ++u) {
    if (found[u].name != made[u].name) return fmt::format("units '{}' and '{}'", found[u].name, made[u].name);
    if (found[u].parameters.size() != made[u].parameters.size()) return "counts of parameters of " + made[u].name;
    for (std::size_t p = 0; p < made[u].parameters.size(); ++p) {
      const Parameter& a = found[u].parameters[p];
      const Parameter& b = made[u].parameters[p];
      if (a.numel() != b.numel() || a.dtype != b.dtype || a.requires_grad != b.requires_grad)
        return fmt::format("{}: {} and {} elements", b.name, a.numel(), b.numel());
    }
  }
  return {};
}

Settings mixed() {
  Settings s = four_gpus();
  s.param_dtype = DType::bfloat16;
  s.reduce_dtype = DType::float32;
  return s;
}

TEST_CASE("reduce-scatters of another process group have one of their own") {
  const Settings settings = mixed();
  const Workload original = small_workload(settings, 3);
  const Snapshot snapshot = with_sections(record(original, settings), settings, original.units);
  const std::vector<Range> ranges = ranges_of(snapshot);
  const Inference alone = infer({snapshot, capture_events(snapshot.events, 0), ranges});
  REQUIRE_FALSE(alone.recorded.empty());
  CHECK_FALSE(alone.settings.separate_reduce_scatter_group);
  for (const bool separate : {false, true}) {
    ProfilerTrace trace;
    trace.communicators = {{"0", "default_pg", "[0, 1, 2, 3]", 4}, {"9", "fsdp_reduce_scatter", "[0, 1, 2, 3]", 4}};
    for (const RecordedUnit& unit : alone.recorded) {
      trace.collectives.push_back({CollectiveKind::all_gather, CommunicatorId{0}, {}, unit.gather.block});
      trace.collectives.push_back(
          {CollectiveKind::reduce_scatter, CommunicatorId{separate ? 1U : 0U}, {}, unit.reduction.input});
    }
    const Inference found = infer({snapshot, capture_events(snapshot.events, 0), ranges, &trace});
    CHECK(found.settings.separate_reduce_scatter_group == separate);
    const InferredItem* item = found.item("separate_reduce_scatter_group");
    CHECK((item != nullptr) == separate);
    if (item != nullptr) CHECK(item->from == "the root is gathered by process group 0 and reduced by 9");
  }
}

TEST_CASE("a recording gives its settings back") {
  const auto check_one = [](const char* name, const Settings& settings) {
    INFO(name);
    const Workload original = small_workload(settings, 3);
    const Inference found = inferred(original, settings);
    CHECK(found.why_not == std::string());
    const std::size_t units = original.units.size();
    CHECK(difference_of(canonical(found.settings, units), canonical(settings, units)) == std::string());
    CHECK(difference_of(found.units, original.units) == std::string());
    CHECK(found.sm_count == 132);
    for (const char* key : {"gpus", "param_dtype", "reshard_after_forward", "accumulate", "optimizer"})
      CHECK(found.item(key) != nullptr);
  };
  const auto with = [&](const char* name, auto change) {
    Settings s = mixed();
    change(s);
    check_one(name, s);
  };
  check_one("float32", four_gpus());
  with("mixed", [](Settings&) {});
  with("cast back", [](Settings& s) { s.reduce_dtype = {}; });
  with("async", [](Settings& s) { s.unshard_async = true; });
  with("prefetch", [](Settings& s) { s.forward_prefetch = s.backward_prefetch = 2; });
  with("prefetch lists", [](Settings& s) { s.prefetch_lists.forward["layers.0"] = {"layers.2"}; });
  with("no reshard", [](Settings& s) { s.reshard_after_forward = {Reshard::Kind::never, 0}; });
  with("int reshard", [](Settings& s) { s.reshard_after_forward = {Reshard::Kind::group, 2}; });
  with("one unit kept", [](Settings& s) { s.reshard_of_unit["layers.1"] = {Reshard::Kind::never, 0}; });
  with("root kept", [](Settings& s) { s.root_reshard_explicit = false; });
  with("gather on compute", [](Settings& s) { s.gather_alloc = GatherAlloc::compute; });
  with("offload", [](Settings& s) { s.offload = true; });
  with("symmetric", [](Settings& s) { s.all_gather = Transport::copy_engine; });
  with("accumulation", [](Settings& s) { s.accumulate = 3; });
  with("accumulation with sync", [](Settings& s) {
    s.accumulate = 2;
    s.accumulate_with_sync = true;
  });
  with("fused", [](Settings& s) { s.optimizer = Optimizer::adam_fused; });
  with("single", [](Settings& s) { s.optimizer = Optimizer::adam_single; });
}

TEST_CASE("units of several parameter groups say why there is no workload") {
  const Workload original = small_workload(mixed(), 3);
  Snapshot snapshot = with_sections(record(original, mixed()), mixed(), original.units);
  for (SnapshotAnnotation& a : snapshot.annotations)
    if (a.name == "FSDP::all_gather (layers.1)") a.name += " [pg=1]";
  CHECK(inferred_of(snapshot).why_not.find("'layers.1' has parameters on several meshes") != std::string::npos);
}

/// The recording from its n-th annotation of that name on.
Snapshot cut_at(Snapshot snapshot, std::string_view name, int n) {
  const auto found = std::find_if(snapshot.annotations.begin(), snapshot.annotations.end(),
                                  [&](const SnapshotAnnotation& a) { return a.start && a.name == name && n-- == 0; });
  REQUIRE(found != snapshot.annotations.end());
  const std::int64_t from = found->time_us;
  std::erase_if(snapshot.annotations, [&](const SnapshotAnnotation& a) { return a.time_us < from; });
  std::erase_if(snapshot.events, [&](const AllocatorEvent& e) { return e.time_us < from; });
  return snapshot;
}

TEST_CASE("an optimizer that is none of the known says what was seen of it") {
  const Settings settings = four_gpus();
  Workload original = small_workload(settings, 2);
  const auto snapshot = [&] { return with_sections(record(original, settings), settings, original.units); };
  CHECK(inferred_of(snapshot()).item("optimizer")->settled);
  original.optimizer_param_groups = {2, static_cast<std::uint32_t>(original.parameters_order.size()) - 2};
  CHECK(inferred_of(snapshot()).item("optimizer")->settled);
  Snapshot other = snapshot();
  for (SnapshotAnnotation& a : other.annotations)
    if (a.name == "Optimizer.step#Adam.step") a.name = "Optimizer.step#SGD.step";
  const Inference found = inferred_of(other);
  CHECK_FALSE(found.item("optimizer")->settled);
  CHECK(found.item("optimizer")->from == "ranges of SGD, whose requests are not those of sgd, which has no momentum");
}

TEST_CASE("a recording that begins inside a step is read from its first whole one on") {
  for (const bool keeps : {false, true}) {
    Settings settings = mixed();
    if (keeps) settings.reshard_after_forward = {Reshard::Kind::never, 0};
    const Workload original = small_workload(settings, 3);
    const Snapshot whole = with_sections(record(original, settings), settings, original.units);
    for (const char* name : {"FSDP::pre_backward (layers.1)", "FSDP::pre_forward (layers.1)",
                             "FSDP::post_backward_accumulate (layers.1)"}) {
      INFO(name << (keeps ? ", kept" : ""));
      const Snapshot cut = cut_at(whole, name, 1);
      const std::vector<Range> ranges = ranges_of(cut);
      const Inference found = infer({cut, capture_events(cut.events, 0), ranges});
      CHECK(found.why_not == std::string());
      CHECK(found.settings.reshard_after_forward == settings.reshard_after_forward);
      REQUIRE(found.units.size() == original.units.size());
      for (std::size_t u = 0; u < found.units.size(); ++u) CHECK(found.units[u].name == original.units[u].name);
      CHECK(difference_of(found.units, original.units) == std::string());
    }
  }
}

/// The scripted device completes every event at once: one block comes back after what follows, all others at once, as
/// where the GPU waits for its host.
TEST_CASE("one gather block that comes back late was marked by record_stream, and so were all") {
  for (const bool async : {false, true}) {
    Settings settings = mixed();
    settings.release = Release::record_stream;
    settings.unshard_async = async;
    const Workload original = small_workload(settings, 3);
    Snapshot snapshot = with_sections(record(original, settings), settings, original.units);
    const Inference before = inferred_of(snapshot);
    CHECK(before.settings.release == Release::automatic);
    REQUIRE_FALSE(before.recorded[1].gather.block == 0);
    std::vector<AllocatorEvent>& events = snapshot.events;
    for (std::size_t i = events.size() - 1; i-- > 0;)
      if (events[i].action == AllocatorAction::free_completed && events[i].size == before.recorded[1].gather.block) {
        std::swap(events[i], events[i + 1]);
        std::swap(events[i].time_us, events[i + 1].time_us);
        break;
      }
    CHECK(inferred_of(snapshot).settings.release == Release::record_stream);
  }
}

Settings random_settings() {
  Settings s = mixed();
  s.gpus = *rc::gen::element(2U, 4U);
  s.unshard_async = *rc::gen::inRange(0, 3) == 0;
  if (*rc::gen::arbitrary<bool>()) s.forward_prefetch = *rc::gen::inRange(0U, 4U);
  if (*rc::gen::arbitrary<bool>()) s.backward_prefetch = *rc::gen::inRange(0U, 4U);
  s.reshard_after_forward.kind = *rc::gen::element(Reshard::Kind::always, Reshard::Kind::never);
  if (s.shard_ranks() == 4 && *rc::gen::inRange(0, 3) == 0) s.reshard_after_forward = {Reshard::Kind::group, 2};
  s.root_reshard_explicit = *rc::gen::arbitrary<bool>();
  s.optimizer = *rc::gen::element(Optimizer::adam, Optimizer::adam_fused, Optimizer::adam_single);
  s.accumulate = *rc::gen::inRange(1U, 4U);
  return s;
}

TEST_CASE("any recording gives its settings and parameters back") {
  const bool holds = rc::check("infer(record(units, settings)) is units and settings", [] {
    const std::vector<Unit> units = foreshard::test::random_units({1, 40}, {8, 3000});
    const Settings settings = random_settings();
    const Workload original = small_workload(settings, units);
    const Inference found = inferred(original, settings);
    if (!found.why_not.empty()) RC_FAIL(found.why_not);
    const std::string wrong = difference_of(canonical(found.settings, units.size()), canonical(settings, units.size()));
    if (!wrong.empty()) RC_FAIL(wrong + "; " + found.item("optimizer")->from);
    const std::string other = difference_of(found.units, original.units);
    if (!other.empty()) RC_FAIL(other);
  });
  CHECK(holds);
}

TEST_CASE("a recording without FSDP's section ranges says why there is no workload") {
  const Workload original = small_workload(mixed(), 3);
  const Recorded recorded = record(original, mixed());
  const Inference found =
      infer({recorded.snapshot, capture_events(recorded.snapshot.events, 0), ranges_of(recorded.snapshot)});
  CHECK(found.why_not.find("how many ranks") != std::string::npos);
}

}  // namespace
}  // namespace foreshard::traces::test
