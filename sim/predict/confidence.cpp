#include "sim/predict/confidence.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "core/device/transport_traits.hpp"
#include "core/kernel/own_kernels.hpp"
#include "core/settings/pytorch_version.hpp"
#include "core/settings/version_rules.hpp"
#include "sim/compute/measured.hpp"
#include "sim/machine/node_note.hpp"
#include "sim/predict/cuda_graph.hpp"
#include "sim/predict/machine_use.hpp"

namespace foreshard::sim {
namespace {

/// Half the width to be expected of a step whose kernels are scaled from those of another size, relative.
constexpr double kScaledSteps = 0.1;

/// A host's speed that moves the step by less than this, relative, is not worth naming.
constexpr double kNoticed = 0.0005;

void rest_on(Basis basis, double half_width, Prediction& p) {
  p.interval.rests_on.push_back({basis, half_width, half_width});
}

/// Settings for which core/adapt rewrites a recorded step.
bool rearranges(const Settings& recorded, const Settings& wanted) {
  return recorded.checkpoint != wanted.checkpoint || recorded.accumulate != wanted.accumulate ||
         recorded.units_per_group != wanted.units_per_group;
}

/// Whether collectives run over other ranks, links or transports than the recorded ones.
bool moves_collectives(const Settings& recorded, const Settings& wanted) {
  return recorded.gpus != wanted.gpus || recorded.nodes != wanted.nodes || recorded.replicate != wanted.replicate ||
         recorded.all_gather != wanted.all_gather || recorded.reduce_scatter != wanted.reduce_scatter ||
         recorded.separate_reduce_scatter_group != wanted.separate_reduce_scatter_group;
}

/// Collectives whose prices no measurement stands behind: faster ones shorten what is exposed, slower ones may lengthen
/// the step by all that they take longer. Returns by how much, a logarithm.
double rest_on_collectives(double half_width, Prediction& p) {
  const double more = std::exp(half_width) - 1;
  const double less = 1 - std::exp(-half_width);
  const double longer = std::log(1 + more * p.communication_ms / p.step_ms);
  p.interval.rests_on.push_back(
      {Basis::collectives, -std::log(1 - less * p.exposed_communication_ms / p.step_ms), longer});
  return longer;
}

/// Whether each of foreshard's own kernels in the program was measured on the machine.
bool measures_own_kernels(const MachineProfile& machine, const Workload& workload) {
  const std::vector<std::string>& labels = workload.labels.texts();
  if (std::none_of(labels.begin(), labels.end(), [](const std::string& label) { return own_kernel(label); }))
    return true;
  for (const Program& program : workload.steps)
    for (const Op& op : program.ops) {
      if (op.kind != OpKind::kernel || op.kernel.bytes == 0) continue;
      const std::string_view label = workload.labels.text(op.kernel.label);
      if (own_kernel(label) && !compute::measured(machine.compute, label, op.kernel)) return false;
    }
  return true;
}

/// Whether each of the program's float8 GEMMs has a measured one of its kind on the machine; true where it has none.
bool measures_float8(const MachineProfile& machine, const Workload& workload) {
  for (const Program& program : workload.steps)
    for (const Op& op : program.ops)
      if (op.kind == OpKind::kernel && op.kernel.math.kind == KernelMath::Kind::gemm &&
          is_float8(op.kernel.math.dtype) && !compute::measured(machine.compute, {}, op.kernel))
        return false;
  return true;
}

/// Whether experts are exchanged in a model's program: what an exchange costs the host was measured, but of the
/// programs that were held against such plans those that it binds took longer (docs/experts.md).
bool assumes_exchanges(const Workload& workload) {
  return workload.settings.expert_parallel > 1 && from_model(workload);
}

/// Whether the host's calls that zero gradients are a model's: Tensor.zero_() of a DTensor was measured of no program.
bool assumes_zeroing(const Workload& workload) {
  return !workload.settings.set_to_none && from_model(workload);
}

/// Why the host is assumed.
std::string host_doubt(const Workload& workload) {
  if (workload.host_program == workload.lowering) {
    return assumes_zeroing(workload)
               ? "the host is assumed: what zeroing and adding to gradients that are kept (set_to_none false) costs it "
                 "was measured of no program, and counts as that of other ops"
               : "the host is assumed: programs with experts over several ranks that it binds took longer than their "
                 "plans, most of them (docs/experts.md)";
  }
  return workload.lowering == Lowering::foreshard
             ? "the host is assumed: foreshard's program is planned, but the host times were measured of eager "
               "PyTorch; "
               "`foreshard run` issues as slowly only with --pace-host (a profile that `foreshard probe` wrote has the "
               "times of foreshard's own program)"
             : "the host is assumed: eager PyTorch's program is planned, but the host times were measured of "
               "foreshard's "
               "own, which issues many times faster (a built-in profile has PyTorch's; --lowering foreshard plans the "
               "program that was measured)";
}

/// A host of another program than the planned one: a step that it sets cannot be valid.
void judge_host(const Workload& workload, Prediction& p) {
  if (p.host != HostConfidence::assumed) return;
  std::string why = host_doubt(workload);
  if (p.host_bound) return estimate(std::move(why), p);
  p.warnings.push_back(std::move(why));
}

/// Whether a unit whose forward inputs are cast is recomputed through its own hooks.
bool recomputes_casts(const Workload& workload) {
  for (const Program& program : workload.steps) {
    std::set<UnitId> casts;
    std::set<UnitId> in_backward;
    for (const Op& op : program.ops) {
      if (op.kind == OpKind::alloc && op.unit.valid()) casts.insert(op.unit);
      if (op.kind != OpKind::hook) continue;
      if (op.hook == Hook::microbatch_begin) in_backward.clear();
      if (op.hook == Hook::pre_backward) in_backward.insert(op.unit);
      if (op.hook == Hook::pre_forward && in_backward.contains(op.unit) && casts.contains(op.unit)) return true;
    }
  }
  return false;
}

/// Whether a CUDA graph holds collectives of gpu/collectives/replayable_collectives.hpp.
bool replays_own_collectives(const Workload& workload, const Settings& settings) {
  if (!settings.cuda_graph || settings.shard_ranks() == 1) return false;
  return settings.reduce_scatter == Transport::pull_reduce ||
         (workload.lowering == Lowering::foreshard && outside_nccl(settings.all_gather));
}

/// A rule's sentence inside another one.
std::string clause(std::string_view sentence) {
  std::string out(sentence.substr(0, sentence.size() - 1));
  out.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(out.front())));
  return out;
}

/// Of all steps, what prices take that were not measured. Gradient clipping's norm and a logged loss are all-reduced,
/// too: so little says nothing of the step.
bool are_negligible(const Simulation& simulation) {
  constexpr double kOfAllSteps = 0.002;  // five times as long, and a step is 1 % longer
  if (simulation.deadlock || simulation.step_end.empty()) return false;
  double alone = 0;
  for (const DerivedPrices& derived : simulation.derived) {
    if (derived.cannot_run) return false;
    alone += derived.alone.ms();
  }
  return alone < kOfAllSteps * simulation.step_end.back().ms();
}

}  // namespace

void estimate(std::string why, Prediction& p) {
  p.valid = false;
  p.not_valid.push_back(why);
  p.warnings.push_back(std::move(why));
}

HostRange host_range(const PredictionSpec& spec, const Workload& workload, const Prediction& p) {
  // A profiler's host alone: how much slower it is than the program's own is not known.
  const bool known =
      !from_model(workload) && p.host_scale.source != HostScale::Source::none && p.host != HostConfidence::elsewhere;
  if (!known) return {Basis::modelled_host, spec.model_host};
  return {Basis::recorded_host, std::max(spec.host_bound, p.host_scale.spread / 2)};
}

void judge_basis(const PredictionSpec& spec, const Workload& workload, const Settings& settings, const HostRange& host,
                 const HostBound& bound, Prediction& p) {
  double gpu = spec.difference;
  if (from_model(workload)) {
    rest_on(Basis::modelled, spec.model, p);
  } else {
    rest_on(Basis::recorded, spec.gpu_bound, p);
    if (rearranges(workload.settings, settings)) {
      rest_on(Basis::adapted, spec.adapted, p);
      gpu = std::hypot(gpu, spec.adapted);
    }
  }
  if (std::abs(p.host_scale.anchor - 1) > spec.anchor_range)
    rest_on(Basis::anchor, std::abs(std::log(p.host_scale.anchor)), p);
  if (p.host_scale.late_rank >= 0 && !from_model(workload)) rest_on(Basis::anchor, std::log1p(spec.anchor_range), p);
  const double below = bound.faster_ms > 0 ? std::log(bound.step_ms / bound.faster_ms) : 0;
  const double above = bound.step_ms > 0 ? std::log(bound.slower_ms / bound.step_ms) : 0;
  if (host.range > 0) {
    p.interval.moved_below = below / host.range;
    p.interval.moved_above = above / host.range;
  }
  if (std::max(below, above) > kNoticed) p.interval.rests_on.push_back({host.basis, below, above});
  p.host_may_bind =
      !p.host_bound && host.basis == Basis::modelled_host && bound.slower_ms > spec.step_excess * bound.step_ms;
  p.host_binds_from = p.host_may_bind ? bound.binds_from : std::nullopt;
  p.difference = difference_width(gpu, from_model(workload) ? spec.difference_model_host : spec.difference_host,
                                  std::max(p.interval.moved_below, p.interval.moved_above));
}

HostConfidence host_confidence(const Workload& workload) {
  if (workload.host_program != workload.lowering || assumes_exchanges(workload) || assumes_zeroing(workload))
    return HostConfidence::assumed;
  return from_model(workload) ? HostConfidence::measured : HostConfidence::recorded;
}

void judge_version(const Workload& workload, const Settings& settings, Prediction& p) {
  if (pytorch_minor(settings.pytorch) < pytorch_minor(kFsdpSchedule)) {
    std::string text = fmt::format("FSDP2's schedule is that of PyTorch {}; of {} it has the allocator's rules",
                                   kFsdpSchedule, settings.pytorch);
    std::vector<std::string> known;
    for (const VersionRule* rule : differing_rules(settings.pytorch, kFsdpSchedule))
      if (rule->area == RuleArea::fsdp2) known.push_back(clause(rule->before));
    if (!known.empty()) text += fmt::format(" and this: {}", fmt::join(known, ", "));
    return estimate(std::move(text), p);
  }
  for (const VersionRule* rule : unsettled_rules(settings.pytorch))
    if (rule->planned == RulePlanned::yes)
      p.warnings.push_back(fmt::format("PyTorch {} is planned without {}, which it may have: {}", settings.pytorch,
                                       rule->name, rule->unsettled));
  const VersionRule& casts = version_rule(RuleId::recompute_casts_inputs);
  if (holds(casts.id, settings.pytorch) && !holds(casts.id, workload.settings.pytorch) && recomputes_casts(workload))
    estimate(fmt::format("PyTorch {} casts the inputs of checkpointed units once more as it recomputes them ({}): the "
                         "plan leaves that out",
                         settings.pytorch, casts.name),
             p);
}

void judge_workload(const Workload& workload, const Workload& adapted, const MachineProfile& machine, Prediction& p) {
  for (const std::string& why : workload.estimates) estimate(why, p);
  if (!measures_own_kernels(machine, workload)) estimate(std::string(kOwnKernelsEstimate), p);
  if (!measures_float8(machine, workload))
    estimate(machine.peaks.matrix_float8 > 0
                 ? "float8 GEMMs are priced as bfloat16's at the data sheet's float8 rate: the machine profile has no "
                   "measured ones (foreshard probe measures them)"
                 : "float8 GEMMs are priced as bfloat16's: the machine profile has no float8 rate",
             p);
  p.emulated = workload.lowering == Lowering::foreshard && adapted.has_timing && !computes(adapted);
  if (p.emulated)
    p.warnings.push_back(
        fmt::format("foreshard's own run is planned, and this workload does not say what its kernels compute: "
                    "times are those of run --emulate{}",
                    from_model(workload) ? "" : "; for a run with real numbers, plan from the model's name or config"));
  if (p.has_time) judge_host(workload, p);
}

void judge_steps(const Workload& workload, Prediction& p) {
  if (!p.has_time || workload.recorded.empty()) return;
  const auto cycle = static_cast<std::ptrdiff_t>(std::min(p.cycle, workload.recorded.size()));
  const auto scaled = std::count_if(workload.recorded.end() - cycle, workload.recorded.end(),
                                    [](const RecordedStep& step) { return !step.profiled; });
  if (scaled > 0) {
    const double share = static_cast<double>(scaled) / static_cast<double>(cycle);
    rest_on(Basis::steps, kScaledSteps * share, p);
    p.warnings.push_back(
        fmt::format("no profiled step has the size of {} of the {} steps that the time is the mean of: their kernels "
                    "are scaled from the profiled ones', ±{:.0f} % of such a step",
                    scaled, cycle, kScaledSteps * 100));
  }
  // Steps that the recording does not repeat are a sample, and the measured ones another.
  if (steps_repeat(workload) || p.steps.size() < 2) return;
  double least = p.steps[1].ms;
  double most = least;
  for (std::size_t step = 1; step < p.steps.size(); ++step) {
    least = std::min(least, p.steps[step].ms);
    most = std::max(most, p.steps[step].ms);
  }
  const double sample = p.step_ms > 0 ? (most - least) / p.step_ms / std::sqrt(static_cast<double>(cycle)) / 2 : 0;
  rest_on(Basis::steps, sample, p);
  p.warnings.push_back(
      fmt::format("the recorded steps differ and do not repeat: a mean of {} steps between {:.1f} and {:.1f} ms is "
                  "known to ±{:.0f} %; it is not anchored to the measured steps, which may have had other sizes",
                  cycle, least, most, sample * 100));
}

void judge_prices(const Workload& adapted, const Simulation& simulation, Prediction& p) {
  const bool negligible = are_negligible(simulation);
  double within = 0;
  p.not_measured = 0;
  for (const DerivedPrices& derived : simulation.derived) {
    within = std::max(within, derived.within);
    if (negligible || derived.within > 0) {
      p.warnings.push_back(derived.caveat + (negligible ? ": next to nothing of a step" : ""));
    } else {
      estimate(derived.caveat, p);
      ++p.not_measured;
    }
  }
  if (!negligible && within > 0 && p.has_time && p.step_ms > 0) rest_on_collectives(within, p);
  if (simulation.outcome.sections_missing > 0 && adapted.has_timing)
    estimate(
        fmt::format("{} FSDP sections have no captured cost and count as free", simulation.outcome.sections_missing),
        p);
}

void judge_machine(const Workload& recorded, const Workload& adapted, const MachineProfile& machine,
                   const Settings& settings, bool derived, Prediction& p) {
  bool elsewhere = derived;
  if (adapted.has_timing)
    for (std::string& text : outside(machine.valid_range, machine.name, machine_use(adapted, settings, p.run))) {
      elsewhere = true;
      p.warnings.push_back(std::move(text));
    }
  if (const std::string note = node_note(machine, settings.gpus); !note.empty()) {
    elsewhere = true;
    estimate(note, p);
  }
  if (settings.nodes > 1 && settings.world() <= machine.links.gpus)
    p.warnings.push_back(fmt::format(
        "profile {} has nodes of {} GPUs: these {} would fit in one (--gpus {} --nodes 1), and are planned on {} that "
        "their adapters link",
        machine.name, machine.links.gpus, settings.world(), settings.world(), settings.nodes));
  const bool recorded_so = !from_model(recorded) && recorded.settings.separate_reduce_scatter_group;
  if (settings.separate_reduce_scatter_group && settings.shard_ranks() > 1 && !recorded_so) {
    elsewhere = true;
    estimate(
        "separate_reduce_scatter_group: reduce-scatters beside all-gathers of the same ranks are modelled, not "
        "measured: no recording that the model rests on has them",
        p);
  }
  if (settings.cuda_graph && waits_in_passes(recorded))
    estimate(
        "cuda_graph: the host waits for the GPU in forward or backward, where a capture fails unless the program does "
        "without, as transformers' masks do; what it does instead is not in the recording, and the wait is left out",
        p);
  if (replays_own_collectives(adapted, settings)) {
    elsewhere = true;
    estimate(
        "cuda_graph: foreshard's own collectives take another form there, with flags that can be replayed and no "
        "resident reduction, which is not measured: they are priced as in an eager step",
        p);
  }
  if (!elsewhere || !p.has_time || p.step_ms <= 0) return;
  if (from_model(adapted))
    rest_on(Basis::elsewhere, machine.prediction.model_elsewhere, p);
  else if (moves_collectives(recorded.settings, settings))
    p.difference = std::hypot(p.difference, rest_on_collectives(machine.prediction.collectives, p));
}

void judge_retries(const PredictionSpec& spec, Prediction& p) {
  if (p.retries_ms <= 0 || p.step_ms <= 0) return;
  const double share = p.retries_ms / p.step_ms;
  const double below = -std::log(1 - share * (1 - std::exp(-spec.retries)));
  const double above = std::log(1 + share * std::expm1(spec.retries));
  p.interval.rests_on.push_back({Basis::retries, below, above});
  p.host_binds_from.reset();  // a host that is waited for is ahead of nothing: it was looked for without retries
  p.difference = std::hypot(p.difference, below);  // what a step without retries gains at least
  const std::string what = p.step_num_alloc_retries == 0 ? "segments that go back to the driver take"
                           : p.step_num_alloc_retries == 1
                               ? "an allocation retry takes"
                               : fmt::format("{} allocation retries take", p.step_num_alloc_retries);
  p.warnings.push_back(fmt::format(
      "{} {:.1f} ms of the steady {} (nine of ten measured ones lie between {:.1f} and {:.1f}): the GPU is waited for, "
      "cudaFree and cudaMalloc called",
      what, p.retries_ms, p.cycle > 1 ? "cycle's mean step" : "step", p.retries_ms * std::exp(-spec.retries),
      p.retries_ms * std::exp(spec.retries)));
}

void judge_elsewhere(const MachineProfile& machine, Prediction& p) {
  rest_on(Basis::elsewhere, machine.prediction.model_elsewhere, p);
  if (p.repriced.empty())
    return estimate(fmt::format("recorded on {}, of which there is no machine profile: its kernels keep their times, "
                                "which are not {}'s",
                                p.recorded_on, machine.name),
                    p);
  p.warnings.push_back(
      fmt::format("recorded on {}, planned on {}: kernels take their recorded times by the ratio of the two profiles "
                  "for their class, the host its recorded ones",
                  p.recorded_on, machine.name));
}

}  // namespace foreshard::sim
