#include "traces/capture/timing.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "sim/calibrate/contention_out.hpp"
#include "traces/capture/hooks.hpp"
#include "traces/capture/step_calls.hpp"
#include "traces/capture/step_merge.hpp"

namespace foreshard::traces {
namespace {

using Severity = ImportStat::Severity;

std::vector<Range> annotation_ranges(const Run& run) {
  std::vector<Range> out;
  for (const HostOpRecord& host : run.host_ops) {
    if (host.kind == HostOpRecord::Kind::annotation) out.push_back({run.labels.text(host.label), host.start, host.end});
  }
  std::stable_sort(out.begin(), out.end(), [](const Range& a, const Range& b) {
    return a.start != b.start ? a.start < b.start : a.end > b.end;
  });
  return out;
}

// FSDP's casts and copy-ins are known from their place.
void mark_gather_copies(const Run& run, const StepCalls& step, std::vector<ContendedOp>& ops) {
  for (const StepSegment& segment : step.segments) {
    for (const StepSection& section : segment.sections) {
      if (section.section != Section::all_gather) continue;
      const std::vector<SectionRole> roles = roles_of(run, section);
      for (std::size_t i = 0; i < roles.size(); ++i) {
        if (roles[i] == SectionRole::cast || roles[i] == SectionRole::copy_in)
          ops[section.items[i].op].kernel_class = KernelClass::gather_copy;
      }
    }
  }
}

// Layers repeat: the same kernel on the same grid, after the same kernel, does the same work (time model 1.2).
void mark_signatures(const Run& run, StreamId compute, std::vector<ContendedOp>& ops) {
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < run.device_ops.size(); ++i)
    if (run.device_ops[i].stream == compute) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return run.device_ops[a].start < run.device_ops[b].start; });
  using Key = std::tuple<LabelId, std::array<std::uint32_t, 3>, LabelId>;
  std::map<Key, std::uint32_t> ids;
  LabelId before;
  for (const std::uint32_t i : order) {
    const DeviceOpRecord& op = run.device_ops[i];
    const auto id = static_cast<std::uint32_t>(ids.size());
    if (op.kind == DeviceOpRecord::Kind::kernel)
      ops[i].signature = ids.emplace(Key{op.label, op.grid, before}, id).first->second;
    before = op.label;
  }
}

void add_stat(std::vector<ImportStat>& stats, std::string name, Severity severity, std::uint64_t count,
              std::string text) {
  if (count > 0) stats.push_back({std::move(name), severity, count, std::move(text)});
}

/// A recorder that ends with the last optimizer does so inside the range of its step(): where a kind of step is seen
/// there alone, the host time up to that range's end is the recorder's. It is the same code in all kinds.
void take_least_end_of_optimizer(std::vector<StepTiming>& kinds) {
  std::optional<Nanoseconds> least;
  const auto each_end = [&](auto&& use) {
    for (StepTiming& kind : kinds)
      for (TimedSegment& segment : kind.segments)
        if (segment.hook == Hook::optimizer_end) use(kind, segment.hook_host_before);
  };
  each_end([&](StepTiming&, Nanoseconds host) { least = std::min(least.value_or(host), host); });
  each_end([&](StepTiming& kind, Nanoseconds& host) {
    kind.host_total -= host - *least;
    host = *least;
  });
}

}  // namespace

Result<StepTiming> read_timing(const Run& run, const sim::MachineProfile& machine,
                               std::span<const ProcessGroup> groups) {
  const std::vector<Range> ranges = annotation_ranges(run);
  auto hooks = find_hooks(ranges, run.units);
  FORESHARD_TRY(hooks);
  const TraceCalls calls = find_calls(run);
  auto sections = find_sections(ranges, run.units, calls);
  FORESHARD_TRY(sections);

  std::vector<StepCalls> steps;
  for (const StepPlaces& places : hooks->steps)
    if (places.complete) steps.push_back(cut_step(run, calls, *sections, *hooks, places, groups));
  if (steps.empty()) {
    return fail(
        ErrorKind::mismatch, "the profiler trace holds no full training step",
        std::to_string(ranges.size()) + " annotations, " + std::to_string(hooks->steps.size()) + " steps in part",
        "record from before optimizer.zero_grad() to after optimizer.step(), two steps if you can");
  }
  const std::vector<std::size_t> equal = equal_steps(run, steps);
  const StreamId compute = compute_stream(run, steps);

  std::vector<ContendedOp> contended(run.device_ops.size());
  for (const StepCalls& step : steps) mark_gather_copies(run, step, contended);
  mark_signatures(run, compute, contended);
  const std::vector<FreedOp> freed = free_of_contention(run, contended, compute, machine);

  std::uint64_t user_collectives = 0;
  std::uint64_t lost_waits = 0;
  for (const std::size_t i : equal) {
    user_collectives = std::max(user_collectives, steps[i].user_collectives);
    lost_waits = std::max(lost_waits, steps[i].lost_waits);
  }
  const auto merged = [&](const std::vector<std::size_t>& which, const StepTiming* before) {
    std::vector<StepCalls> chosen;
    std::vector<bool> followed;
    for (const std::size_t i : which) {
      followed.push_back(static_cast<std::size_t>(steps[i].index) + 1 < hooks->steps.size());
      chosen.push_back(steps[i]);
    }
    return merge_steps(run, chosen, followed, freed, compute, groups, before);
  };
  StepTiming out = merged(equal, nullptr);
  for (const std::vector<std::size_t>& kind : steps_by_size(run, steps))
    out.sizes.push_back(merged(kind, out.sizes.empty() ? &out : &out.sizes.back()));
  take_least_end_of_optimizer(out.sizes);
  out.stats = std::move(hooks->stats);
  add_stat(out.stats, "different_steps", Severity::data_loss, steps.size() - equal.size(),
           "Recorded steps that issue other device ops than the ones used; left out.");
  add_stat(out.stats, "single_step", Severity::info, equal.size() == 1 ? 1 : 0,
           "Only one step could be used: interruptions of the host in it stay in the host times; profile more steps of "
           "the kind.");
  add_stat(out.stats, "ops_without_call", Severity::data_loss, calls.ops_without_call,
           "Device ops whose runtime call is not in the trace; left out of the step.");
  add_stat(out.stats, "user_collectives", Severity::data_loss, user_collectives,
           "Collectives that the program issued itself, a step, of a kind or group that has no price; left out of the "
           "time.");
  add_stat(out.stats, "waits_in_sections", Severity::data_loss, lost_waits,
           "Synchronisations inside FSDP's or the optimizer's own code, a step; left out.");
  return out;
}

}  // namespace foreshard::traces
