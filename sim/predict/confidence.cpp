#include "sim/predict/confidence.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/fsdp/fsdp_rules.hpp"
#include "core/kernel/own_kernels.hpp"
#include "sim/compute/measured.hpp"
#include "sim/predict/machine_use.hpp"

namespace foreshard::sim {
namespace {

/// Half the width to be expected of a step whose kernels are scaled from those of another size, relative.
constexpr double kScaledSteps = 0.1;

/// Whether each of foreshard's own kernels in the program was measured on the machine.
bool measures_own_kernels(const MachineProfile& machine, const Workload& workload) {
  for (const Program& program : workload.steps)
    for (const Op& op : program.ops) {
      if (op.kind != OpKind::kernel || op.kernel.bytes == 0) continue;
      const std::string_view label = workload.labels.text(op.kernel.label);
      if (own_kernel(label) && !compute::measured(machine.compute, label, op.kernel)) return false;
    }
  return true;
}

/// A host of another program than the planned one: a step that it sets cannot be valid.
void judge_host(const Workload& workload, Prediction& p) {
  if (p.host != HostConfidence::assumed) return;
  std::string why =
      workload.lowering == Lowering::foreshard
          ? "the host is assumed: foreshard's program is planned, but the host times were measured of eager PyTorch; "
            "`foreshard run` issues as slowly only with --pace-host (a profile that `foreshard probe` wrote has the "
            "times of foreshard's own program)"
          : "the host is assumed: eager PyTorch's program is planned, but the host times were measured of foreshard's "
            "own, which issues many times faster (a built-in profile has PyTorch's; --lowering foreshard plans the "
            "program that was measured)";
  if (p.host_bound) return estimate(std::move(why), p);
  p.warnings.push_back(std::move(why));
}

}  // namespace

void estimate(std::string why, Prediction& p) {
  p.valid = false;
  p.not_valid.push_back(why);
  p.warnings.push_back(std::move(why));
}

double step_uncertainty(const PredictionSpec& spec, const Workload& workload, const Prediction& p) {
  if (from_model(workload)) return p.host_bound ? spec.model_host : spec.model;
  // A profiler's host alone: how much slower it is than the program's own is not known.
  if (p.host_bound && p.host_scale.source == HostScale::Source::none) return spec.model_host;
  return p.host_bound ? std::max(spec.host_bound, p.host_scale.spread / 2) : spec.gpu_bound;
}

HostConfidence host_confidence(const Workload& workload) {
  if (workload.host_program != workload.lowering) return HostConfidence::assumed;
  return from_model(workload) ? HostConfidence::measured : HostConfidence::recorded;
}

void judge_version(const Settings& settings, Prediction& p) {
  if (settings.pytorch == kFsdpSchedule) return;
  std::string text = fmt::format("FSDP2's schedule is that of PyTorch {}; of {} it has the allocator's rules",
                                 kFsdpSchedule, settings.pytorch);
  if (const auto known = differences(fsdp_rules(settings.pytorch)); !known.empty())
    text += fmt::format(" and this: {}", fmt::join(known, ", "));
  estimate(std::move(text), p);
}

void judge_workload(const Workload& workload, const Workload& adapted, const MachineProfile& machine, Prediction& p) {
  for (const std::string& why : workload.estimates) estimate(why, p);
  if (!measures_own_kernels(machine, workload)) estimate(std::string(kOwnKernelsEstimate), p);
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
    p.uncertainty += kScaledSteps * share;
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
  p.uncertainty += sample;
  p.warnings.push_back(
      fmt::format("the recorded steps differ and do not repeat: a mean of {} steps between {:.1f} and {:.1f} ms is "
                  "known to ±{:.0f} %; it is not anchored to the measured steps, which may have had other sizes",
                  cycle, least, most, sample * 100));
}

void judge_prices(const Workload& adapted, const Simulation& simulation, Prediction& p) {
  for (const std::string& caveat : simulation.caveats) estimate(caveat, p);
  if (simulation.outcome.sections_missing > 0 && adapted.has_timing)
    estimate(
        fmt::format("{} FSDP sections have no captured cost and count as free", simulation.outcome.sections_missing),
        p);
}

void judge_machine(const Workload& adapted, const MachineProfile& machine, const Settings& settings, bool derived,
                   Prediction& p) {
  bool elsewhere = derived;
  if (adapted.has_timing)
    for (std::string& text : outside(machine.valid_range, machine.name, machine_use(adapted, settings, p.run))) {
      elsewhere = true;
      p.warnings.push_back(std::move(text));
    }
  if (settings.gpus > machine.links.gpus) {
    elsewhere = true;
    estimate(fmt::format("profile {} has nodes of {} GPUs; {} a node are taken to be one NVLink domain (--nodes for "
                         "more nodes)",
                         machine.name, machine.links.gpus, settings.gpus),
             p);
  }
  if (elsewhere && from_model(adapted) && p.has_time)
    p.uncertainty = std::max(p.uncertainty, machine.prediction.model_elsewhere);
}

void judge_elsewhere(const MachineProfile& machine, Prediction& p) {
  const PredictionSpec& spec = machine.prediction;
  p.uncertainty = std::max(p.uncertainty, p.host_bound ? spec.model_host : spec.model_elsewhere);
  if (p.repriced.empty())
    return estimate(fmt::format("recorded on {}, of which there is no machine profile: its kernels keep their times, "
                                "which are not {}'s",
                                p.recorded_on, machine.name),
                    p);
  p.warnings.push_back(
      fmt::format("recorded on {}, planned on {}: kernels take their recorded times by the ratio of the two profiles "
                  "for their class, the host its recorded ones; ±{:.0f} %",
                  p.recorded_on, machine.name, p.uncertainty * 100));
}

}  // namespace foreshard::sim
