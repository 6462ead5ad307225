#include "sim/predict/plan_times.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/explain_time/waited_kinds.hpp"
#include "core/run/rank_shapes.hpp"
#include "core/run/stretch.hpp"
#include "core/straggler/straggler_text.hpp"
#include "sim/predict/busy_time.hpp"
#include "sim/predict/confidence.hpp"
#include "sim/predict/cuda_graph.hpp"
#include "sim/predict/keeps_up.hpp"
#include "sim/predict/measured_by_step.hpp"

namespace foreshard::sim {
namespace {

void judge_anchor(const PredictionSpec& spec, Prediction& p) {
  const HostScale& scale = p.host_scale;
  if (scale.source == HostScale::Source::steady && scale.measured_ms > 0 &&
      std::abs(scale.simulated_ms / scale.measured_ms - 1) > spec.anchor_range)
    estimate(fmt::format("the recorded settings simulate {:.1f} ms where {:.1f} ms were measured, however fast their "
                         "host is taken to be: a profiled step was held up, say (profile more of them)",
                         scale.simulated_ms, scale.measured_ms),
             p);
  if (std::abs(p.host_scale.anchor - 1) > spec.anchor_range)
    estimate(
        fmt::format("the recorded settings simulate {:.0f} % away from what was measured there, and the plan takes "
                    "that for compute: the machine differs from the profile, or another rank holds this one up "
                    "(`explain --time`, and `import` of every rank, tell)",
                    (p.host_scale.anchor - 1) * 100),
        p);
}

/// How the host binds the step: by its work, or because it is late where the GPU has nothing else to do.
std::string host_words(const PredictionSpec& spec, const Prediction& p) {
  const std::string work =
      fmt::format("({:.1f} ms of host work a step against {:.1f} ms on the GPU)", p.host_ms, p.gpu_step_ms);
  if (p.host_ms > p.gpu_step_ms) return "the CPU issues more slowly than the GPU works " + work;
  if (p.host_ms > spec.host_share * p.gpu_step_ms)
    return "the CPU issues hardly faster than the GPU works: either may set the step " + work;
  const bool waits = p.split_size_waits_ms && *p.split_size_waits_ms > 0;
  return fmt::format(
      "the CPU issues faster than the GPU works {}, but late in places{}: the step is {:.1f} ms longer "
      "than with a host that costs nothing",
      work,
      waits ? fmt::format(", as behind its waits for split sizes of all-to-alls, which cost {:.1f} ms",
                          *p.split_size_waits_ms)
            : std::string(),
      p.step_ms - p.gpu_step_ms);
}

/// Of a plan of a recording in which another rank was late.
std::string keeps_up_warning(const Prediction& p) {
  const std::string still = still_holds_up(p);
  const std::string in_which = !p.with_more.empty() ? "in which no rank has more"
                               : still.empty()      ? "in which it keeps up"
                                                    : fmt::format("in which nothing but {} holds it up", still);
  return fmt::format(
      "{} in the recording, whose steps took {:.1f} ms: this is a step {} ({:.1f} ms at the recorded settings, not "
      "anchored); an import of rank {}'s trace plans the job as it ran",
      p.with_more.empty() ? fmt::format("rank {} was late", p.keeps_up) : ranks_words(p.with_more) + " had more work",
      p.host_scale.measured_ms, in_which, p.host_scale.simulated_ms, p.keeps_up);
}

void warn(const PredictionSpec& spec, bool modelled, bool may_capture, Prediction& p) {
  if (p.host_bound)
    p.warnings.push_back(fmt::format("host-bound: {}{}", host_words(spec, p),
                                     may_capture ? "; --cuda-graph 3 takes it out of forward and backward" : ""));
  judge_anchor(spec, p);
  if (p.keeps_up >= 0) p.warnings.push_back(keeps_up_warning(p));
  if (p.host_scale.source == HostScale::Source::none && !modelled)
    p.warnings.push_back(
        "no unprofiled step times came with the capture (about's `measured`): host times are those "
        "under the profiler, and the step is not anchored");
}

/// Of a cycle the mean of its steps.
double exposed_all_to_all_ms(const Simulation& simulation, const Prediction& p) {
  const TimeExplainer explainer(p.run);
  Nanoseconds sum;
  for (std::size_t i = 0; i < p.cycle; ++i) {
    const auto explanation = explainer.explain_at(simulation.steady - i);
    if (!explanation) continue;
    for (const WaitedKind& one : waited_kinds(p.run, *explanation))
      if (one.kind == CollectiveKind::all_to_all) sum += one.time;
  }
  return sum.ms() / static_cast<double>(p.cycle);
}

/// The steady step, or cycle, on the compute stream.
struct Span {
  Nanoseconds begin;
  Nanoseconds end;
};

/// Sets the step; where it is.
std::optional<Span> set_step(const Simulation& simulation, double anchor, Prediction& p) {
  p.has_time = true;
  p.cycle = simulation.cycle;
  // Of another order of the same ops it is not known whether its host binds it, which no anchor scales.
  const double least = std::min(1.0, p.host_scale.anchor);
  const StepFloor& floor = simulation.floor;
  if (p.ranks.empty()) p.floor = {floor.compute_ms * least, floor.links_ms * least, floor.host_ms * least};
  if (simulation.steady == 0) return std::nullopt;
  const Span span{simulation.steady_begin().scaled(anchor), simulation.step_end[simulation.steady].scaled(anchor)};
  p.step_ms = (span.end - span.begin).ms() * (1 / static_cast<double>(p.cycle));
  return span;
}

}  // namespace

double applied_anchor(const PredictionSpec& spec, const Prediction& p) {
  const bool explained = std::abs(p.host_scale.anchor - 1) <= spec.anchor_range;
  return p.host_bound && explained ? 1 : p.host_scale.anchor;
}

void add_step(const PredictionSpec& spec, const Simulation& simulation, double anchor, Prediction& p) {
  judge_anchor(spec, p);
  static_cast<void>(set_step(simulation, anchor, p));
}

void add_times(const PredictionSpec& spec, const Workload& workload, const Settings& settings,
               const Simulation& simulation, const HostBound& bound, Prediction& p) {
  p.host_bound = bound.host_bound;
  p.host_ms = bound.host_ms;
  const double k = applied_anchor(spec, p);
  stretch(p.run, k);
  p.gpu_step_ms = bound.gpu_step_ms * k;
  if (const auto span = set_step(simulation, k, p)) {
    const auto [begin, end] = *span;
    const BusyTime busy = busy_time(p.run, begin, end);
    const double share = 1 / static_cast<double>(p.cycle);
    p.compute_ms = busy.compute.ms() * share;
    p.communication_ms = busy.communication.ms() * share;
    p.exposed_communication_ms = busy.exposed_communication.ms() * share;
    p.idle_ms = (end - begin - busy.compute - busy.exposed_communication).ms() * share;
    if (settings.expert_parallel > 1) p.exposed_all_to_all_ms = exposed_all_to_all_ms(simulation, p);
    if (bound.no_waits_ms) p.split_size_waits_ms = std::max(0.0, bound.step_ms - *bound.no_waits_ms) * k;
  }
  for (std::size_t step = 1; step < p.steps.size(); ++step)
    p.steps[step].ms = (simulation.step_end[step] - simulation.begin_of(step)).ms() * k;
  const std::vector<double> measured = measured_by_step(workload);
  for (std::size_t step = 1; step < std::min(measured.size(), p.steps.size()); ++step)
    p.steps[step].measured_ms = measured[step];
  const bool may_capture = !settings.cuda_graph && offers_graph(workload.lowering) &&
                           not_capturable(workload, settings).empty() && !waits_in_passes(workload);
  warn(spec, from_model(workload), may_capture, p);
}

}  // namespace foreshard::sim
