#include "traces/capture/capture.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/fsdp/unit_plan.hpp"
#include "core/run/allocation_names.hpp"
#include "core/run/stack_meaning.hpp"
#include "traces/capture/capture_events.hpp"
#include "traces/capture/hooks.hpp"
#include "traces/capture/join.hpp"
#include "traces/capture/program_builder.hpp"
#include "traces/capture/recogniser.hpp"
#include "traces/capture/recorded_returns.hpp"
#include "traces/capture/step_sizes.hpp"
#include "traces/capture/trained.hpp"

namespace foreshard::traces {
namespace {

/// Annotation ranges with starts in order; an END closes the newest open range of its name.
std::vector<Range> ranges_of(const Snapshot& snapshot, std::int64_t origin_us) {
  constexpr Nanoseconds kOpen{std::int64_t{1} << 62};
  std::vector<Range> ranges;
  std::vector<std::size_t> open;
  for (const SnapshotAnnotation& a : snapshot.annotations) {
    const Nanoseconds time = Nanoseconds::from_us(a.time_us - origin_us);
    if (a.start) {
      open.push_back(ranges.size());
      ranges.push_back({a.name, time, kOpen});
      continue;
    }
    const auto it = std::find_if(open.rbegin(), open.rend(), [&](std::size_t i) { return ranges[i].name == a.name; });
    if (it == open.rend()) continue;
    ranges[*it].end = time;
    open.erase(std::next(it).base());
  }
  return ranges;
}

bool same_program(const Program& a, const Program& b) {
  return std::equal(a.ops.begin(), a.ops.end(), b.ops.begin(), b.ops.end(), same_op);
}

std::int64_t origin_of(const Snapshot& snapshot) {
  std::int64_t origin = snapshot.events.empty() ? 0 : snapshot.events.front().time_us;
  if (!snapshot.annotations.empty()) origin = std::min(origin, snapshot.annotations.front().time_us);
  return origin;
}

/// A recording that began inside a step is set-up as far as the next one: what FSDP2 did before is not in it. Returns
/// how many steps were dropped.
std::int32_t drop_cut_step(Hooks& hooks) {
  if (hooks.steps.empty() || !hooks.steps.front().cut) return 0;
  const std::size_t places = hooks.steps.front().count;
  hooks.places.erase(hooks.places.begin(), hooks.places.begin() + static_cast<std::ptrdiff_t>(places));
  hooks.steps.erase(hooks.steps.begin());
  for (StepPlaces& step : hooks.steps) step.first -= places;
  hooks.began_inside = true;
  return 1;
}

/// A recording that ends inside a step (out of memory, say) is read up to the step before.
void drop_broken_step(Hooks& hooks, std::vector<CaptureEvent>& events) {
  if (hooks.steps.empty() || !hooks.steps.back().broken) return;
  const StepPlaces step = hooks.steps.back();
  hooks.steps.pop_back();
  hooks.places.resize(step.first);
  const auto end =
      std::find_if(events.begin(), events.end(), [&](const CaptureEvent& e) { return e.time >= step.begin; });
  events.erase(end, events.end());
  for (CaptureEvent& e : events)
    if (e.partner != CaptureEvent::kNone && e.partner >= events.size()) e.partner = CaptureEvent::kNone;
}

/// The time side of each size of step: a profiled one, or one scaled from those; none where no profiled step passes
/// its hooks.
std::vector<std::optional<StepTiming>> timing_by_size(const StepTiming& timing, StepSizes& sizes, bool& assumed,
                                                      std::vector<SizedStep>& steps) {
  std::vector<const StepTiming*> profiled;
  for (const StepTiming& size : timing.sizes) profiled.push_back(&size);
  if (profiled.empty()) profiled.push_back(&timing);
  const TimesSources sources = times_sources(sizes, profiled);
  assumed = sources.assumed;
  for (std::size_t i = 0; !assumed && i < profiled.size(); ++i) {
    const auto of_size = std::find(sizes.size_of.begin(), sizes.size_of.end(), sources.size_of[i]);
    const auto place = static_cast<std::size_t>(of_size - sizes.size_of.begin());
    if (!sources.size_of[i] || place >= sizes.steps.size()) continue;
    for (const std::int32_t index : profiled[i]->indices) steps.push_back({index, sizes.steps[place]});
  }
  std::vector<std::optional<StepTiming>> out;
  for (const TimesSource& source : sources.of) {
    if (!source.same_hooks) {
      out.emplace_back();
      continue;
    }
    const StepTiming* other = source.other ? profiled[*source.other] : nullptr;
    out.emplace_back(source.profiled ? *profiled[source.step] : scaled_timing(*profiled[source.step], other, source));
  }
  for (std::size_t k = 0; k < sizes.steps.size(); ++k) {
    const TimesSource& source = sources.of[sizes.size_of[k]];
    sizes.steps[k].profiled = source.profiled || !source.same_hooks;  // what has no times is not scaled
  }
  return out;
}

/// What is said of steps that differ.
ImportStat different_steps(const StepSizes& sizes, const Workload& workload, bool assumed) {
  constexpr std::size_t kShown = 16;
  std::vector<std::string> tokens;
  for (const RecordedStep& step : sizes.steps)
    tokens.push_back(step.seq > 0 ? fmt::format("{} x {}", step.batch, step.seq) : "unknown");
  if (tokens.size() > kShown) {
    tokens.resize(kShown);
    tokens.emplace_back("…");
  }
  const bool known = std::any_of(sizes.steps.begin(), sizes.steps.end(), [](const auto& s) { return s.seq > 0; });
  const bool hooks =
      std::adjacent_find(sizes.hooks.begin(), sizes.hooks.end(), std::not_equal_to<>()) != sizes.hooks.end();
  std::string text = fmt::format("recorded steps: they differ{}{}, and plans run them all",
                                 known ? fmt::format(" (batch x seq {})", fmt::join(tokens, ", ")) : "",
                                 hooks ? ", some in the hooks that they pass (a forward without backward, say)" : "");
  if (workload.has_timing && sizes.cycle > 1) text += fmt::format("; a step time is the mean of {}", sizes.cycle);
  const auto scaled = std::count_if(sizes.steps.begin(), sizes.steps.end(), [](const auto& s) { return !s.profiled; });
  if (workload.has_timing && scaled > 0)
    text += fmt::format("; {} of these {} steps {} of a size that no profiled step has: kernels' times are scaled",
                        scaled, sizes.steps.size(), scaled == 1 ? "is" : "are");
  if (workload.has_timing && assumed) text += "; which sizes the profiled steps have is assumed";
  return {"different_steps", ImportStat::Severity::info, 1, std::move(text)};
}

/// Of the steps that a plan's time is the mean of, those without times.
std::size_t untimed_in_cycle(const StepSizes& sizes, const std::vector<std::optional<StepTiming>>& timing) {
  if (timing.empty()) return 0;
  return static_cast<std::size_t>(std::count_if(sizes.size_of.end() - sizes.cycle, sizes.size_of.end(),
                                                [&](std::size_t size) { return !timing[size]; }));
}

Result<void> add_steps(const BuiltPrograms& built, const CaptureInput& input, Capture& capture) {
  Workload& workload = capture.workload;
  StepSizes sizes = step_sizes(built.steps, input.settings);
  std::vector<std::optional<StepTiming>> timing;  // by size; empty: all are as input.timing says
  bool assumed = false;
  const bool other_hooks = input.timing != nullptr && !sizes.hooks.empty() && !input.timing->sizes.empty() &&
                           hook_places(*input.timing) != sizes.hooks[sizes.size_of.back()];
  if (input.timing != nullptr && (sizes.differ || other_hooks))
    timing = timing_by_size(*input.timing, sizes, assumed, capture.profiled);
  const std::size_t untimed = untimed_in_cycle(sizes, timing);
  const bool any_timed = untimed < sizes.cycle;
  for (std::size_t k = 0; k < built.steps.size(); ++k) {
    if (input.timing == nullptr || (any_timed && !timing.empty() && !timing[sizes.size_of[k]])) {
      workload.steps.push_back(memory_program(built.steps[k]));
      continue;
    }
    const bool has = !timing.empty() && timing[sizes.size_of[k]];
    const StepTiming* times = has ? &*timing[sizes.size_of[k]] : input.timing;
    auto joined = join_step(built.steps[k], *times, input.units, k == 0);
    FORESHARD_TRY(joined);
    workload.steps.push_back(std::move(*joined));
  }
  workload.cycle = sizes.cycle;
  if (workload.measured) workload.measured->cycle = sizes.cycle;
  // Equal programs at the end are kept once (program_of_step()).
  while (workload.steps.size() > workload.cycle &&
         same_program(workload.steps.back(), workload.steps[workload.steps.size() - 1 - workload.cycle]))
    workload.steps.pop_back();
  if (input.timing != nullptr) {
    if (untimed > 0)
      workload.estimates.push_back(fmt::format(
          "{} of the {} recorded steps that the time is the mean of pass hooks that no profiled step passes: their "
          "kernels are not in it",
          untimed, sizes.cycle));
    const StepTiming& last = timing.empty() || input.timing->sizes.empty() ? *input.timing : input.timing->sizes.back();
    workload.sections = input.timing->sections;
    workload.labels = last.labels;
    workload.process_groups = last.process_groups;
    workload.has_timing = true;
  }
  if (sizes.differ) capture.stats.push_back(different_steps(sizes, workload, assumed));
  workload.recorded = std::move(sizes.steps);
  return {};
}

/// Segments of private pools (symmetric memory) come from another allocator than cudaMalloc.
bool in_private_pool(const Snapshot& snapshot, Address address) {
  return std::any_of(snapshot.segments.begin(), snapshot.segments.end(), [&](const SnapshotSegment& s) {
    return s.address == address && (s.pool_id.first != 0 || s.pool_id.second != 0);
  });
}

void add_segments(const Snapshot& snapshot, Workload& workload) {
  for (const AllocatorEvent& event : snapshot.events) {
    if (event.action != AllocatorAction::segment_alloc || in_private_pool(snapshot, event.address)) continue;
    workload.segment_addresses.push_back(event.address);
    workload.segment_sizes.push_back(event.size);
  }
}

/// Says of each parameter whether it is trained, as the recording shows, and holds what was given against it.
Result<std::vector<ImportStat>> set_requires_grad(CaptureInput& input, std::span<const CaptureEvent> events,
                                                  std::span<const Range> ranges) {
  const auto plans = plan_units(input.settings, input.units, input.sm_count);
  FORESHARD_TRY(plans);
  const Trained trained = find_trained(events, ranges, input.units, *plans, fsdp_rules(input.settings.pytorch));
  std::size_t next = 0;
  for (Unit& unit : input.units)
    for (Parameter& parameter : unit.parameters) {
      const bool found = trained.parameters[next++];
      if (input.requires_grad_known && parameter.requires_grad != found && trained.alike == 0)
        return fail(ErrorKind::mismatch,
                    fmt::format("the about file says requires_grad {} of '{}', but the recording {} its gradient",
                                parameter.requires_grad, parameter.name, found ? "reduces" : "never reduces"),
                    fmt::format("unit \"{}\"", unit.name),
                    "correct requires_grad, or leave it out: it is read off the recording");
      if (!input.requires_grad_known) parameter.requires_grad = found;
    }
  std::vector<ImportStat> stats;
  if (trained.frozen == 0 || input.requires_grad_known) return stats;
  stats.push_back({"frozen_parameters", ImportStat::Severity::info, trained.frozen,
                   "parameters are frozen: the recording reduces no gradient of theirs"});
  if (trained.alike > 0)
    stats.push_back(
        {"frozen_alike", ImportStat::Severity::info, trained.alike,
         "units have frozen and trained parameters of equal sizes, which are told apart by their order alone"});
  return stats;
}

/// Gives the workload's allocations the operators of their stacks, and the notes the names of the allocations.
void name_allocations(const Snapshot& snapshot, Capture& capture) {
  Workload& w = capture.workload;
  const StackMeanings stacks(snapshot.stacks);
  std::vector<std::vector<std::size_t>> alloc_of(w.steps.size());  // by program and tensor: place in its ops
  for (std::size_t k = 0; k < w.steps.size(); ++k)
    for (std::size_t i = 0; i < w.steps[k].ops.size(); ++i) {
      const Op& op = w.steps[k].ops[i];
      if (op.kind != OpKind::alloc) continue;
      if (op.tensor.value >= alloc_of[k].size()) alloc_of[k].resize(op.tensor.value + 1, SIZE_MAX);
      alloc_of[k][op.tensor.value] = i;
    }
  const auto program_of = [&](const AllocationNote& note) {
    return program_of_step(w, static_cast<std::size_t>(note.step));
  };
  const auto is_in_program = [&](const AllocationNote& note) {
    if (note.step < 0 || !note.tensor.valid()) return false;
    const std::vector<std::size_t>& places = alloc_of[program_of(note)];
    return note.tensor.value < places.size() && places[note.tensor.value] != SIZE_MAX;
  };
  std::size_t next = 0;
  for (const AllocatorEvent& event : snapshot.events) {
    if (event.action != AllocatorAction::alloc || next == capture.allocations.size()) continue;
    AllocationNote& note = capture.allocations[next++];
    const std::string op = stacks.op(event.stack);
    if (op.empty()) continue;
    note.op = w.labels.intern(op);
    if (is_in_program(note))
      w.steps[program_of(note)].ops[alloc_of[program_of(note)][note.tensor.value]].label = note.op;
  }
  std::vector<std::vector<AllocationName>> names;
  for (const Program& program : w.steps) names.push_back(allocation_names(w, program, w.labels));
  for (AllocationNote& note : capture.allocations) {
    if (!is_in_program(note)) continue;
    const AllocationName& name = names[program_of(note)][alloc_of[program_of(note)][note.tensor.value]];
    if (!note.op.valid()) note.op = name.op;
    note.module = name.module;
  }
}

/// How the steps of a capture's programs are numbered in the recording.
struct StepNumbers {
  std::int32_t dropped = 0;     ///< steps before the first program's
  std::int32_t broken = 0;      ///< the step of allocations behind the last program's
  std::size_t allocations = 0;  ///< of the whole recording
};

/// Allocations' steps are those of the programs, and allocations behind the last program's are left out.
Result<Capture> take_capture(CaptureInput input, StepNumbers& numbers) {
  const std::int64_t origin = origin_of(input.snapshot);
  const std::vector<Range> ranges = ranges_of(input.snapshot, origin);
  std::vector<CaptureEvent> events = capture_events(input.snapshot.events, origin);
  auto frozen = set_requires_grad(input, events, ranges);
  FORESHARD_TRY(frozen);
  const auto plans = plan_units(input.settings, input.units, input.sm_count);
  FORESHARD_TRY(plans);
  auto hooks = find_hooks(ranges, input.units);
  FORESHARD_TRY(hooks);
  const bool any = !hooks->steps.empty();
  numbers.allocations = static_cast<std::size_t>(
      std::count_if(events.begin(), events.end(), [](const CaptureEvent& e) { return e.allocates; }));
  numbers.broken = any ? hooks->steps.back().index : 0;
  drop_broken_step(*hooks, events);
  numbers.dropped = drop_cut_step(*hooks);
  if (hooks->steps.empty())
    return fail(ErrorKind::mismatch,
                any ? "the snapshot records a part of a training step alone"
                    : "the snapshot records no training step with FSDP annotations",
                {}, "record with torch.cuda.memory._record_memory_history from before the first step on");
  auto recognition = recognise({events, *hooks, input.settings, input.units, *plans});
  FORESHARD_TRY(recognition);
  if (!input.settings.set_to_none && recognition->frees_gradients)
    return fail(ErrorKind::mismatch, "set_to_none is false, and the recording frees gradients between its steps",
                "set_to_none", "leave it out of the about file: it is read off a recording of two steps or more");
  BuiltPrograms built = build_programs(input, events, ranges, *hooks, *recognition, *plans);

  Capture capture;
  Workload& w = capture.workload;
  w.name = input.name;
  w.settings = input.settings;
  if (recognition->keeps_gradients && !recognition->frees_gradients) w.settings.set_to_none = false;
  w.units = input.units;
  w.measured = input.measured;
  w.sm_count = input.sm_count;
  w.gpu = input.gpu;
  w.torch = input.torch;
  w.initial_segments.assign(input.initial_segments.begin(), input.initial_segments.end());
  for (SnapshotSegment& segment : w.initial_segments)
    segment.stream = stream_of(segment.stream, *recognition, built.user_streams);
  w.optimizer_known = built.optimizer_known;
  w.shards_known = built.shards_known;
  w.parameters_order = built.parameters_order;
  w.optimizer_param_groups = built.optimizer_param_groups;
  w.setup = memory_program(built.setup);
  add_segments(input.snapshot, w);
  w.returns = recorded_returns(input.snapshot.events);
  for (const StepPlaces& step : hooks->steps) w.recorded_host_ms.push_back((step.end - step.begin).ms());
  capture.stats = hooks->stats;
  FORESHARD_TRY(add_steps(built, input, capture));
  capture.allocations = built.allocations;
  capture.optimizer_began_before = built.optimizer_began_before;
  capture.stats.insert(capture.stats.end(), frozen->begin(), frozen->end());
  return capture;
}

/// Allocations' steps as the recording numbers them, of all its allocations.
void number_allocations(const StepNumbers& numbers, Capture& capture) {
  for (AllocationNote& note : capture.allocations)
    if (note.step >= 0) note.step += numbers.dropped;
  capture.allocations.resize(numbers.allocations,
                             {.category = MemoryCategory::other, .unit = {}, .parameter = {}, .step = numbers.broken});
}

}  // namespace

Result<Capture> read_capture(CaptureInput input) {
  const Snapshot& snapshot = input.snapshot;
  StepNumbers numbers;
  auto capture = take_capture(std::move(input), numbers);
  if (!capture) return capture;
  name_allocations(snapshot, *capture);
  number_allocations(numbers, *capture);
  return capture;
}

Result<Capture> capture_at(const CaptureInput& input, const Settings& settings) {
  StepNumbers numbers;
  auto capture = take_capture({.snapshot = input.snapshot,
                               .initial_segments = input.initial_segments,
                               .settings = settings,
                               .units = input.units,
                               .sm_count = input.sm_count,
                               .requires_grad_known = input.requires_grad_known,
                               .optimizer_param_groups = input.optimizer_param_groups},
                              numbers);
  if (capture) number_allocations(numbers, *capture);
  return capture;
}

}  // namespace foreshard::traces
