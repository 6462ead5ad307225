#include "traces/import/recorded_steps.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "core/run/graph_replay.hpp"

namespace foreshard::traces {
namespace {

struct PhaseHooks {
  std::string_view name;
  Hook begin;
  Hook end;
};

constexpr std::array kPhases{
    PhaseHooks{"zero_grad", Hook::zero_grad, Hook::microbatch_begin},
    PhaseHooks{"forward", Hook::forward_begin, Hook::forward_end},
    PhaseHooks{"backward", Hook::backward_begin, Hook::backward_end},
    PhaseHooks{"optimizer", Hook::optimizer_begin, Hook::optimizer_end},
};

std::span<const HookPlace> places_of(const Hooks& hooks, const StepPlaces& step) {
  return std::span(hooks.places).subspan(step.first, step.count);
}

void add_phases(const StepPlaces& step, std::span<const HookPlace> places, Recording recording,
                std::vector<PhaseRecord>& out) {
  const std::size_t before = out.size();
  for (const PhaseHooks& phase : kPhases) {
    const HookPlace* open = nullptr;
    for (const HookPlace& place : places) {
      if (place.hook == phase.begin && open == nullptr) open = &place;
      if (place.hook != phase.end || open == nullptr) continue;
      out.push_back({step.index, recording, std::string(phase.name), open->time, place.time});
      open = nullptr;
      if (phase.begin == Hook::zero_grad) break;  // later microbatches have no zero_grad
    }
  }
  const auto at = [&](Hook hook) {
    return std::find_if(places.begin(), places.end(), [&](const HookPlace& place) { return place.hook == hook; });
  };
  if (const auto optimizer = at(Hook::optimizer_begin);
      at(Hook::forward_begin) == places.end() && optimizer != places.end())
    out.push_back({step.index, recording, std::string(kGraphReplay), step.begin, optimizer->time});
  std::stable_sort(out.begin() + static_cast<std::ptrdiff_t>(before), out.end(),
                   [](const PhaseRecord& a, const PhaseRecord& b) { return a.start < b.start; });
}

}  // namespace

std::vector<Range> trace_ranges(const Run& run) {
  std::vector<Range> ranges;
  for (const HostOpRecord& op : run.host_ops)
    if (op.kind == HostOpRecord::Kind::annotation) ranges.push_back({run.labels.text(op.label), op.start, op.end});
  return ranges;
}

std::vector<StepRecord> step_records(const Hooks& hooks, Recording recording) {
  std::vector<StepRecord> steps;
  for (const StepPlaces& place : hooks.steps) {
    if (!place.complete) continue;
    StepRecord step;
    step.recording = recording;
    step.index = place.index;
    step.start = place.begin;
    step.end = place.end;
    steps.push_back(step);
  }
  return steps;
}

std::vector<PhaseRecord> phase_records(const Hooks& hooks, Recording recording) {
  std::vector<PhaseRecord> phases;
  for (const StepPlaces& step : hooks.steps)
    if (step.complete) add_phases(step, places_of(hooks, step), recording, phases);
  return phases;
}

std::uint32_t microbatches(const Hooks& hooks) {
  std::uint32_t most = 0;
  for (const StepPlaces& step : hooks.steps) {
    if (!step.complete) continue;
    for (const HookPlace& place : places_of(hooks, step))
      most = std::max(most, static_cast<std::uint32_t>(place.microbatch) + 1);
  }
  return most;
}

}  // namespace foreshard::traces
