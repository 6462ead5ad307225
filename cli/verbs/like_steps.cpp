#include "cli/verbs/like_steps.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "core/compare/run_totals.hpp"
#include "core/run/step_shapes.hpp"
#include "sim/predict/measured_by_step.hpp"
#include "sim/predict/throughput.hpp"
#include "traces/workload_file/workload_file.hpp"

namespace foreshard::cli {
namespace {

/// Indices of the steps that `own` is one of: it first, those before it backwards, then those behind it.
std::vector<std::int32_t> from_own(const std::set<std::int32_t>& indices, std::int32_t own) {
  std::vector<std::int32_t> out(indices.rbegin(), indices.rend());
  std::stable_partition(out.begin(), out.end(), [own](std::int32_t index) { return index <= own; });
  return out;
}

struct Candidate {
  std::int32_t index = 0;
  StepShape shape;
  bool idle_start = false;  ///< the profiler's first: it begins with an idle GPU, as no other does
};

std::vector<Candidate> timed(const Run& run, const StepShapes& shapes, const WantedStep& asked) {
  const StepRecord* own = timed_step(run, asked);
  if (own == nullptr || !own->device_end) return {};
  std::set<std::int32_t> indices;
  for (const StepRecord& step : run.steps)
    if (step.recording == own->recording && step.device_end && (!asked || step.index == *asked))
      indices.insert(step.index);
  std::vector<Candidate> out;
  for (const std::int32_t index : from_own(indices, own->index))
    out.push_back({index, shapes.of(own->recording, index), own->recording == Recording::trace && index == 0});
  return out;
}

std::vector<Candidate> with_memory(const Run& run, const StepShapes& shapes, const WantedStep& asked) {
  const auto own = memory_step(run, asked);
  if (!own || run.allocator.empty()) return {};
  std::set<std::int32_t> indices{own->index};
  for (const StepRecord& step : run.steps)
    if (step.recording == own->recording && (!asked || step.index == *asked)) indices.insert(step.index);
  std::vector<Candidate> out;
  for (const std::int32_t index : from_own(indices, own->index))
    out.push_back({index, shapes.of(own->recording, index)});
  return out;
}

/// The first of A that is like one of B, of those that both begin behind another step before any; else the profiler's
/// first of both; else each run's own.
std::pair<WantedStep, WantedStep> pick(const std::vector<Candidate>& a, const std::vector<Candidate>& b) {
  for (const bool idle_start : {false, true})
    for (const Candidate& of_a : a) {
      const auto found = std::find_if(b.begin(), b.end(), [&](const Candidate& of_b) {
        return of_a.shape.known() && of_a.shape == of_b.shape && of_a.idle_start == idle_start &&
               of_b.idle_start == idle_start;
      });
      if (found != b.end()) return {of_a.index, found->index};
    }
  return {a.empty() ? WantedStep() : a.front().index, b.empty() ? WantedStep() : b.front().index};
}

/// What a recording's steps of a size take without the profiler, and a plan's step, ms; none: not known.
std::optional<double> ms_of_size(const Run& run, const StepShapes& shapes, const StepRecord& step) {
  if (run.info.kind != RunKind::imported) {
    const auto span = device_span(run, step);
    return span ? std::optional((span->end - span->begin).ms()) : std::nullopt;
  }
  const StepShape shape = shapes.of(step.recording, step.index);
  if (!shape.known() || !run.measured || run.measured->steady_ms() <= 0) return std::nullopt;
  if (!shapes.differ()) return run.measured->steady_ms();
  const auto workload = traces::stored_workload(run.workload_json, false, {});
  if (!workload) return std::nullopt;
  return sim::measured_of(*workload, shape.batch, shape.seq);
}

ComparedWork::Side side_of(const Run& run, const StepShapes& shapes, const WantedStep& asked, const WantedStep& time,
                           const WantedStep& memory) {
  ComparedWork::Side side;
  if (const StepRecord* step = timed_step(run, time)) {
    side.step = shapes.of(step->recording, step->index);
    side.size_ms = ms_of_size(run, shapes, *step);
  }
  if (const auto step = memory_step(run, memory ? memory : time)) side.memory = shapes.of(step->recording, step->index);
  side.mean = asked ? std::vector{side.step} : shapes.of_mean();
  if (asked && !side.step.known()) side.mean.clear();
  side.work = sim::work_of_shapes(side.mean, run.settings);
  if (const auto reported = step_time(run); reported && !asked) side.mean_ms = reported->ms;
  return side;
}

}  // namespace

LikeSteps like_steps(const Run& a, const Run& b, const ComparedSteps& asked) {
  const StepShapes shapes_a(a), shapes_b(b);
  LikeSteps out{asked.a, asked.b, {}, {}};
  if ((asked.a && asked.b) || (!shapes_a.differ() && !shapes_b.differ())) return out;
  std::tie(out.time_a, out.time_b) = pick(timed(a, shapes_a, asked.a), timed(b, shapes_b, asked.b));
  std::tie(out.memory_a, out.memory_b) = pick(with_memory(a, shapes_a, asked.a), with_memory(b, shapes_b, asked.b));
  return out;
}

ComparedWork compared_work(const Run& a, const Run& b, const ComparedSteps& asked, const LikeSteps& steps) {
  const StepShapes shapes_a(a), shapes_b(b);
  ComparedWork work;
  work.steps_differ = (!asked.a && shapes_a.differ()) || (!asked.b && shapes_b.differ());
  work.a = side_of(a, shapes_a, asked.a, steps.time_a, steps.memory_a);
  work.b = side_of(b, shapes_b, asked.b, steps.time_b, steps.memory_b);
  return work;
}

}  // namespace foreshard::cli
