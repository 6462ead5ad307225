#include "sim/predict/predict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/adapt/adapt.hpp"
#include "core/models/generate.hpp"
#include "core/settings/carried_out.hpp"
#include "core/settings/settings_table.hpp"
#include "sim/compute/measured.hpp"
#include "sim/predict/busy_time.hpp"
#include "sim/predict/host_bound.hpp"
#include "sim/predict/machine_use.hpp"
#include "sim/predict/simulate.hpp"

namespace foreshard::sim {
namespace {

constexpr Bytes kSmallestLimit = 2 * kMiB;  // the smallest segment (caching allocator 2.2)

constexpr std::string_view kScheduleVersion = "2.11";  // core/fsdp/fully_shard.hpp

double gib(Bytes bytes) {
  return static_cast<double>(bytes) / static_cast<double>(kGiB);
}

void add_times(const PredictionSpec& spec, const Simulation& simulation, const HostBound& bound, bool modelled,
               Prediction& p) {
  p.has_time = true;
  p.host_bound = bound.host_bound;
  p.host_ms = bound.host_ms;
  const double k = p.host_bound ? 1.0 : p.calibration.anchor;
  p.step_ms = simulation.steady_step().ms() * k;
  p.gpu_step_ms = bound.gpu_step_ms * p.calibration.anchor;
  if (const std::size_t step = simulation.steady; step > 0) {
    const BusyTime busy = busy_time(p.run, simulation.step_end[step - 1], simulation.step_end[step]);
    p.compute_ms = busy.compute.ms() * k;
    p.communication_ms = busy.communication.ms() * k;
    p.exposed_communication_ms = busy.exposed_communication.ms() * k;
  }
  p.uncertainty = p.host_bound ? std::max(spec.host_bound, p.calibration.spread / 2) : spec.gpu_bound;
  if (modelled) p.uncertainty = p.host_bound ? spec.model_host : spec.model;
  if (p.host_bound)
    p.warnings.push_back(
        fmt::format("host-bound: the CPU issues more slowly than the GPU works ({:.1f} ms of host work "
                    "a step against {:.1f} ms on the GPU); expect ±{:.0f} %",
                    p.host_ms, p.gpu_step_ms, p.uncertainty * 100));
  if (std::abs(p.calibration.anchor - 1) > spec.anchor_range)
    p.warnings.push_back(fmt::format(
        "the recorded settings simulate {:.0f} % away from what was measured there: the machine differs from "
        "the profile, or another rank or the host holds this one up",
        (p.calibration.anchor - 1) * 100));
  if (p.calibration.source == Calibration::Source::none && !modelled)
    p.warnings.push_back(
        "no unprofiled step times came with the capture (about's `measured`): host times are those "
        "under the profiler, and the step is not anchored");
}

/// Whether every step of the plan is one that the recording shows.
bool repeats_recording(const Workload& workload, const PredictRequest& request) {
  return request.settings == workload.settings && workload.returns.frees > 0 &&
         static_cast<std::size_t>(request.steps) <= workload.recorded_host_ms.size();
}

void add_memory(const Workload& workload, const PredictRequest& request, const Simulation& simulation, Prediction& p) {
  const StepOutcome& outcome = simulation.outcome;
  p.out_of_memory = outcome.out_of_memory;
  if (!outcome.steps.empty()) {
    p.peaks = outcome.steps.back().peaks;
    p.num_alloc_retries = outcome.steps.back().num_alloc_retries;
  }
  if (p.out_of_memory) p.peaks = outcome.out_of_memory_peaks;
  const bool waits = records_streams(request.settings);
  p.peaks_depend_on_time = waits && !repeats_recording(workload, request);
  if (waits && !p.peaks_depend_on_time)
    p.warnings.push_back(
        "record_stream at the recorded settings: freed blocks come back when they did in the recording; in another "
        "process the GPU may pass them earlier or later");
  if (p.peaks_depend_on_time && !workload.has_timing) {
    p.valid = false;
    p.warnings.push_back(
        "record_stream without a profiler trace: when the GPU passes a block is not known, so allocated memory holds "
        "but requested, active and reserved peaks can be far too high");
  }
  p.addresses_invented = !simulation.follows_recording && !workload.segment_addresses.empty();
  if (p.addresses_invented)
    p.warnings.push_back(
        "segments differ from the recording's: their addresses are the driver model's, which can break a tie between "
        "equal blocks another way (requested is exact; allocated, active and reserved within 1 % where measured)");
}

/// How far peaks move with the host's speed, where freed blocks wait for the GPU.
Result<void> add_peak_range(const Workload& w, const MachineProfile& machine, const PredictRequest& request,
                            SimulationRequest simulation, Prediction& p) {
  p.peaks_faster_host = p.peaks_slower_host = p.peaks;
  if (!p.peaks_depend_on_time || p.out_of_memory) return {};
  simulation.steps.record = false;
  const double scale = simulation.options.host_scale;
  const double range = machine.prediction.host_speed_range;
  for (const bool faster : {true, false}) {
    Run ignored;
    simulation.options.host_scale = scale * (faster ? 1 - range : 1 + range);
    auto result = simulate(w, request.settings, machine, simulation, ignored);
    FORESHARD_TRY(result);
    if (!result->outcome.steps.empty())
      (faster ? p.peaks_faster_host : p.peaks_slower_host) = result->outcome.steps.back().peaks;
  }
  p.warnings.push_back(fmt::format(
      "record_stream: a freed block comes back when the GPU has passed it, so peaks follow the host's speed: "
      "reserved {:.2f} GiB, but {:.2f} for a host 10 % faster and {:.2f} for one 10 % slower",
      gib(p.peaks.reserved), gib(p.peaks_faster_host.reserved), gib(p.peaks_slower_host.reserved)));
  return {};
}

/// What of the machine profile the prediction does not rest on a measurement of. `derived`: prices of collectives
/// were not read off measured ones.
void add_machine_warnings(const Workload& workload, const MachineProfile& machine, const Settings& settings,
                          bool derived, Prediction& p) {
  bool elsewhere = derived;
  if (workload.has_timing)
    for (std::string& text : outside(machine.valid_range, machine.name, machine_use(workload, settings, p.run))) {
      elsewhere = true;
      p.warnings.push_back(std::move(text));
    }
  if (settings.gpus > machine.links.gpus) {
    elsewhere = true;
    p.valid = false;
    p.warnings.push_back(fmt::format(
        "profile {} has nodes of {} GPUs; {} a node are taken to be one NVLink domain (--nodes for more nodes)",
        machine.name, machine.links.gpus, settings.gpus));
  }
  if (elsewhere && from_model(workload) && p.has_time)
    p.uncertainty = std::max(p.uncertainty, machine.prediction.model_elsewhere);
}

/// Whether each of foreshard's own kernels in the program was measured on the machine.
bool measures_own_kernels(const MachineProfile& machine, const Workload& workload) {
  for (const Program& program : workload.steps)
    for (const Op& op : program.ops) {
      if (op.kind != OpKind::kernel || op.kernel.bytes == 0) continue;
      const std::string_view label = workload.labels.text(op.kernel.label);
      if (label.rfind("foreshard::", 0) == 0 && !compute::measured(machine.compute, label, op.kernel)) return false;
    }
  return true;
}

void add_info(const Workload& workload, const MachineProfile& machine, const Settings& settings, Prediction& p) {
  p.run.info.kind = RunKind::planned;
  p.run.info.name = workload.name;
  p.run.info.torch = workload.torch;
  p.run.info.gpu = workload.gpu;
  p.run.info.sm_count = workload.sm_count;
  p.run.info.machine = machine.name;
  p.run.info.valid = p.valid;
  p.run.info.warnings = p.warnings;
  p.run.settings = settings;
}

}  // namespace

bool from_model(const Workload& workload) {
  if (workload.measured || !workload.has_timing || workload.steps.empty()) return false;
  const std::vector<Op>& ops = workload.steps.back().ops;
  return std::any_of(ops.begin(), ops.end(), [](const Op& op) {
    return op.kind == OpKind::kernel && op.kernel.work.count == 0 &&
           (op.kernel.math.kind != KernelMath::Kind::bytes || op.kernel.bytes > 0);
  });
}

Result<Prediction> predict(const Workload& workload, const MachineProfile& machine, const PredictRequest& wanted) {
  PredictRequest request = wanted;
  request.settings = carried_out(workload.lowering, wanted.settings);
  if (request.memory_limit && *request.memory_limit < kSmallestLimit)
    return fail(ErrorKind::usage, fmt::format("a memory limit of {} bytes holds no segment", *request.memory_limit), {},
                "give the unit: 80GiB");
  auto adapted = adapt(workload, request.settings);
  FORESHARD_TRY(adapted);
  Prediction p;
  p.warnings = adapted->warnings;
  p.valid = adapted->time_known;
  if (request.settings.pytorch != kScheduleVersion) {
    p.valid = false;
    p.warnings.push_back(fmt::format("FSDP2's schedule is that of PyTorch {}; only the allocator's rules follow {}",
                                     kScheduleVersion, request.settings.pytorch));
  }
  auto calibration = request.calibration ? Result<Calibration>(*request.calibration) : calibrate(workload, machine);
  FORESHARD_TRY(calibration);
  p.calibration = *calibration;
  const Workload& w = adapted->workload;
  SimulationRequest simulation_request;
  simulation_request.steps.steps = request.steps;
  simulation_request.steps.synchronized = 1;
  simulation_request.options.host_scale = p.calibration.host_scale;
  if (records_streams(request.settings) && !p.calibration.host_bound)
    simulation_request.options.host_scale = std::sqrt(p.calibration.host_scale * p.calibration.recorded_host_scale);
  simulation_request.memory_limit = request.memory_limit;
  p.run.units = w.units;
  p.run.labels = w.labels;
  auto simulation = simulate(w, request.settings, machine, simulation_request, p.run);
  FORESHARD_TRY(simulation);
  p.deadlock = simulation->deadlock;
  p.collectives_ran = simulation->collectives_ran;
  add_memory(w, request, *simulation, p);
  FORESHARD_TRY(add_peak_range(w, machine, request, simulation_request, p));
  if (w.has_timing && !p.out_of_memory && !p.deadlock) {
    auto found = host_bound(w, request.settings, machine, p.calibration.host_scale);
    FORESHARD_TRY(found);
    add_times(machine.prediction, *simulation, *found, from_model(workload), p);
  }
  if (!w.has_timing)
    p.warnings.push_back("the workload has no timing (no profiler trace was imported): only memory is predicted");
  for (const std::string& estimate : workload.estimates) {
    if (estimate == kOwnKernelsEstimate && measures_own_kernels(machine, workload)) continue;
    p.valid = false;
    p.warnings.push_back(estimate);
  }
  p.emulated = workload.lowering == Lowering::foreshard && w.has_timing && !computes(w);
  if (p.emulated)
    p.warnings.push_back(
        fmt::format("foreshard's own run is planned, and this workload does not say what its kernels compute: "
                    "times are those of run --emulate{}",
                    from_model(workload) ? "" : "; for a run with real numbers, plan from the model's name or config"));
  for (const std::string& caveat : simulation->caveats) {
    p.valid = false;
    p.warnings.push_back(caveat);
  }
  if (simulation->outcome.sections_missing > 0 && w.has_timing) {
    p.valid = false;
    p.warnings.push_back(
        fmt::format("{} FSDP sections have no captured cost and count as free", simulation->outcome.sections_missing));
  }
  add_machine_warnings(w, machine, request.settings, !simulation->caveats.empty(), p);
  add_info(workload, machine, request.settings, p);
  return p;
}

}  // namespace foreshard::sim
