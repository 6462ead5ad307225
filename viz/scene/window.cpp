#include "viz/scene/window.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "core/run/plan_results.hpp"

namespace foreshard::viz {
namespace {

bool has_steps(const Run& run, Recording recording) {
  return std::any_of(run.steps.begin(), run.steps.end(),
                     [recording](const StepRecord& step) { return step.recording == recording; });
}

/// A step in which memory ran out has no record: it begins where the last complete one ended.
void add_incomplete_step(const Run& run, Recording recording, std::vector<ShownStep>& steps) {
  const auto oom = std::find_if(run.allocator.rbegin(), run.allocator.rend(),
                                [](const AllocatorRecord& record) { return record.action == AllocatorAction::oom; });
  if (oom == run.allocator.rend() || recording == Recording::trace) return;
  const Nanoseconds done = steps.empty() ? run.allocator.front().time : steps.back().end;
  if (!steps.empty() && oom->time < done) return;
  ShownStep step{steps.empty() ? 0 : steps.back().index + 1, done, oom->time, false};
  for (const PhaseRecord& phase : run.phases)
    if (steps.empty() && phase.recording == recording && phase.step == step.index) {
      step.start = phase.start;
      break;
    }
  step.end = std::max(step.end, run.allocator.back().time);
  steps.push_back(step);
}

std::vector<ShownStep> steps_of(const Run& run, Recording recording) {
  std::vector<ShownStep> steps;
  const auto hung = hung_step(run);
  for (const StepRecord& step : run.steps)
    if (step.recording == recording) steps.push_back({step.index, step.start, step.end, !hung || step.index < *hung});
  add_incomplete_step(run, recording, steps);
  return steps;
}

/// Everything, for a recording without steps.
Side whole(const Run& run, Recording recording, bool memory) {
  Side side{recording, {}, {}, {}, {}};
  if (memory) {
    side.first = run.allocator.front().time;
    side.last = run.allocator.back().time;
  } else {
    side.first = run.device_ops.front().issue;
    for (const DeviceOpRecord& op : run.device_ops) {
      side.first = std::min({side.first, op.issue, op.start});
      side.last = std::max(side.last, op.end);
    }
  }
  side.origin = side.first;
  return side;
}

/// The side that shows the steps asked for; nothing where the recording has not that step.
std::optional<Side> side_of(const Run& run, Recording recording, bool memory, const WindowRequest& request) {
  if (memory ? run.allocator.empty() : run.device_ops.empty()) return std::nullopt;
  std::vector<ShownStep> steps = steps_of(run, recording);
  if (steps.empty()) return request.step && !request.all ? std::nullopt : std::optional(whole(run, recording, memory));
  Side side{recording, {}, {}, {}, steps};
  if (request.all) {
    side.first = steps.front().start;
    side.last = steps.back().end;
  } else {
    const auto asked = [&](const ShownStep& step) { return request.step && step.index == *request.step; };
    const auto broken = [](const ShownStep& step) { return !step.complete; };
    auto found = request.step ? std::find_if(steps.begin(), steps.end(), asked)
                              : std::find_if(steps.begin(), steps.end(), broken);
    if (!request.step && found == steps.end()) --found;
    if (found == steps.end()) return std::nullopt;
    side.first = found->start;
    side.last = request.step ? found->end : steps.back().end;
  }
  side.origin = side.first;
  return side;
}

/// End of what the host issued within the side, on any stream.
Nanoseconds device_end(const Run& run, const Side& side) {
  Nanoseconds end = side.last;
  for (const DeviceOpRecord& op : run.device_ops)
    if (op.issue >= side.first && op.issue < side.last) end = std::max(end, op.end);
  return end;
}

std::string title(const Run& run, const Window& window, const WindowRequest& request) {
  const Side& side = window.memory ? *window.memory : *window.lanes;
  if (side.steps.empty()) return "whole recording";
  if (request.all) return fmt::format("steps {}–{}", side.steps.front().index, side.steps.back().index);
  const auto index = [](const Side& of) {
    for (const ShownStep& step : of.steps)
      if (step.start == of.first) return step.index;
    return of.steps.back().index;
  };
  const int first = index(side), last = side.steps.back().index;
  std::string out = fmt::format("step {}", first);
  if (first != last && side.last == side.steps.back().end) out = fmt::format("steps {}–{}", first, last);
  if (window.memory && window.lanes && first != index(*window.lanes))
    out = fmt::format("memory of step {}, lanes of step {}", first, index(*window.lanes));
  const auto shown = [&](const ShownStep& step) { return step.index == first && !step.complete; };
  if (std::any_of(side.steps.begin(), side.steps.end(), shown)) out += hung_step(run) ? " (hangs)" : " (out of memory)";
  return out;
}

tl::unexpected<Error> no_such_step(const Run& run, std::int32_t step) {
  std::string have;
  for (const StepRecord& record : run.steps)
    have += fmt::format("{}{}{}", have.empty() ? "" : ", ", record.index,
                        record.recording == Recording::run        ? ""
                        : record.recording == Recording::snapshot ? " (snapshot)"
                                                                  : " (trace)");
  return fail(ErrorKind::usage, fmt::format("the run has no step {}", step), "--step",
              have.empty() ? "it has no steps: leave --step out" : "it has " + have);
}

const StepRecord* record_of(const Run& run, const Side& side, const ShownStep& step) {
  for (const StepRecord& record : run.steps)
    if (record.recording == side.recording && record.index == step.index) return &record;
  return nullptr;
}

/// The place among the side's steps of the one that is shown; of several the last. None: none of them.
std::size_t shown_at(const Side& side) {
  for (std::size_t i = side.steps.size(); i-- > 0;)
    if (side.steps[i].complete && side.steps[i].end == side.last) return i;
  return side.steps.size();
}

}  // namespace

std::vector<SteppedPair> stepped_pairs(const Run& run, const Window& window) {
  std::vector<SteppedPair> pairs;
  if (!window.memory || !window.lanes) return pairs;
  const Side &memory = *window.memory, &lanes = *window.lanes;
  const std::size_t m = shown_at(memory), l = shown_at(lanes);
  if (m == memory.steps.size() || l == lanes.steps.size()) return pairs;
  for (std::size_t back = std::min(m, l) + 1; back-- > 0;) {
    const SteppedPair pair{record_of(run, memory, memory.steps[m - back]),
                           record_of(run, lanes, lanes.steps[l - back])};
    if (pair.memory != nullptr && pair.lanes != nullptr) pairs.push_back(pair);
  }
  return pairs;
}

std::string clock_note(const Window& window) {
  if (!window.memory || !window.lanes || (window.memory->knots.empty() && !window.two_clocks)) return {};
  const char* over = window.memory_over == MemoryOver::gpu ? "GPU" : "host";
  if (!window.two_clocks)
    return fmt::format("memory stands phase by phase over the {}, which runs behind the host", over);
  const Side &memory = *window.memory, &lanes = *window.lanes;
  const std::size_t m = shown_at(memory), l = shown_at(lanes);
  if (memory.knots.empty() || m == memory.steps.size() || l == lanes.steps.size())
    return "two recordings: memory of the snapshot over lanes of the profiler trace, from where both begin";
  return fmt::format("two recordings, phase by phase: memory of step {} (snapshot) over step {} on the {} (trace){}",
                     memory.steps[m].index, lanes.steps[l].index, over,
                     window.steps_differ ? "; the run's steps differ" : "");
}

Window with_memory_over(const Run& run, Window window, MemoryOver over) {
  if (!window.memory || !window.lanes) return window;
  window.memory->knots.clear();
  window.memory_over = over;
  window.memory->axis_origin = window.lanes->origin;
  // On one clock the host is where it was recorded.
  if (over == MemoryOver::gpu || window.two_clocks)
    window.memory->knots = clock_knots(run, stepped_pairs(run, window), over);
  if (window.memory->knots.empty() && over == MemoryOver::gpu) {
    window.memory_over = MemoryOver::host;
    if (window.two_clocks) window.memory->knots = clock_knots(run, stepped_pairs(run, window), MemoryOver::host);
  }
  return window;
}

Result<Window> choose_window(const Run& run, const WindowRequest& request) {
  if (run.allocator.empty() && run.device_ops.empty())
    return fail(ErrorKind::input, "the run has neither allocator events nor device ops", {},
                "there is nothing to draw");
  Window window;
  window.two_clocks =
      has_steps(run, Recording::snapshot) || has_steps(run, Recording::trace) || run.info.kind == RunKind::imported;
  window.memory = side_of(run, window.two_clocks ? Recording::snapshot : Recording::run, true, request);
  window.lanes = side_of(run, window.two_clocks ? Recording::trace : Recording::run, false, request);
  if (!window.memory && !window.lanes) return no_such_step(run, request.step.value_or(0));
  if (!window.two_clocks && window.memory && window.lanes) {
    // One clock: a recording without steps begins with whichever side is first.
    const Nanoseconds origin = std::min(window.memory->origin, window.lanes->origin);
    window.memory->origin = window.lanes->origin = origin;
  }
  window.steps_differ = run.measured && run.measured->cycle > 1;
  if (window.two_clocks) window = with_memory_over(run, std::move(window), MemoryOver::gpu);
  Nanoseconds length{1};
  if (window.memory) length = std::max(length, window.memory->place(window.memory->last));
  if (window.lanes) length = std::max(length, device_end(run, *window.lanes) - window.lanes->origin);
  if (const auto hangs = hang_end(run); hangs && window.lanes && !request.step)
    length = std::max(length, *hangs - window.lanes->origin);
  window.from = request.from.value_or(Nanoseconds{0});
  window.to = request.to.value_or(length);
  if (window.to <= window.from || window.from >= length || window.to <= Nanoseconds{})
    return fail(ErrorKind::usage,
                fmt::format("there is nothing between {:.3f} ms and {:.3f} ms", window.from.ms(), window.to.ms()),
                "--from/--to",
                fmt::format("times count from the step's begin; what is shown lasts {:.3f} ms", length.ms()));
  window.step = title(run, window, request);
  return window;
}

}  // namespace foreshard::viz
