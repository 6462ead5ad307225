// The plan: what one steady-state training step costs under given settings, from a workload.
//
// Its parts: plan_times.hpp, plan_memory.hpp, and confidence.hpp (interval, `valid`, and why not).
//
// Who: cli's plan, compare and demo; tests/reference. Deterministic: the same workload, settings and
// machine give the same result and the same Run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/allocator/caching_allocator.hpp"
#include "core/base/error.hpp"
#include "core/run/run.hpp"
#include "core/straggler/straggler.hpp"
#include "core/workload/workload.hpp"
#include "sim/engine/deadlock.hpp"
#include "sim/engine/sim_device.hpp"
#include "sim/machine/profile.hpp"
#include "sim/predict/beside.hpp"
#include "sim/predict/drawn_lengths.hpp"
#include "sim/predict/flapping.hpp"
#include "sim/predict/hang.hpp"
#include "sim/predict/host_scale.hpp"
#include "sim/predict/interval.hpp"
#include "sim/predict/rank_difference.hpp"
#include "sim/predict/reprice.hpp"
#include "sim/predict/settled_memory.hpp"
#include "sim/predict/step_floor.hpp"
#include "sim/predict/trial_times.hpp"
#include "sim/predict/utilization.hpp"

namespace foreshard::sim {

/// Whether completion, and so the host's and the GPU's pace, decides when blocks come free: FSDP2's, or the program's.
[[nodiscard]] bool records_streams(const Workload& workload, const Settings& settings);

/// How well allocated, active and reserved are known where Prediction::addresses_invented; relative, measured
/// (docs/accuracy.md).
inline constexpr double kInventedTies = 0.01;

/// What the host times of a plan rest on.
enum class HostConfidence : std::uint8_t {
  recorded = 0,   ///< the recorded process's own
  measured = 1,   ///< a machine profile's, of the program that is planned
  assumed = 2,    ///< another program's: the lowering is not the one whose host was measured, or has exchanges of
                  ///< experts that no measured program had
  elsewhere = 3,  ///< the recorded process's, on another machine
};

/// One step of a recording whose steps differ.
struct PredictedStep {
  RecordedStep recorded;
  double ms = 0;  ///< anchored as Prediction::step_ms; 0: not known, as that of the first, which makes workspaces and
                  ///< optimizer states
  double measured_ms = 0;  ///< of the recording's measured steps of its size (measured_by_step()); 0: not known
  MemoryPeaks peaks;       ///< of one that ran out of memory, or that hangs: until then
  std::int64_t num_alloc_retries = 0;
};

struct PredictRequest {
  Settings settings;                  ///< the wanted ones
  std::optional<Bytes> memory_limit;  ///< none: the machine's memory
  /// Back to back; of a recording whose steps differ (Workload::recorded) all of those instead. Times are the steady
  /// step's (core/run/steady_step.hpp), or the mean of a cycle; memory is the last one's.
  std::int32_t steps = 4;
  std::optional<HostScale> host_scale = {};  ///< find_host_scale()'s for this workload and machine; none: found anew
  /// What is unlike the rest of the job; ranks' workloads as `workload`, not adapted.
  Differences differences = {};
  /// Peaks, retries and whether it fits, alone: no times, and no Run but its settings.
  bool memory_only = false;
  /// Of many plans that are only ranked: the step, peaks, retries, whether it fits and what is against it (not_valid),
  /// as without this; of all else only what costs no further simulation. The host's part is looked into where step or
  /// validity follow it (follows_host_bound()). Nothing without `differences` alone.
  bool step_alone = false;
  /// With that: Prediction::run whole, as without.
  bool keep_run = false;
  /// Of a recording at its own settings: what it told of this one process (older segments, when blocks came back) is
  /// followed. Without it the plan is made as that of any other settings, to be compared with one.
  bool follow_recording = true;
  /// Prediction::run has device ops, streams and steps alone: for whom the numbers are enough.
  bool ops_alone = false;
  std::optional<TrialsRequest> trials = {};  ///< fill Prediction::trials
  std::optional<DrawnLengths> lengths = {};  ///< that `trials` draw, for each rank and step; settings have the longest
  unsigned threads = 1;                      ///< for ranks that differ, and the host's bound; changes no result
  /// Of ranks that differ: how many the Run keeps the ops of (SimulationRequest::kept_ranks).
  std::optional<std::uint32_t> kept_ranks = {};
  std::optional<BesideRequest> beside = {};      ///< fill Prediction::beside
  std::optional<FlappingRequest> flapping = {};  ///< fill Prediction::flapping
};

/// What a step is bound by: ranks that make it longer than the others would (slower_ranks()); else the host that issues
/// it, where it lengthens the step; else, of the GPU's kernels and the links, what is busy longer.
enum class BoundBy : std::uint8_t { gpu = 0, links = 1, host = 2, ranks = 3 };
/// A host that makes the step no longer than this does not bind it, near as it may be (Prediction::host_bound).
inline constexpr double kHostLengthens = 1.005;

/// DifferenceCost, anchored as the step is.
struct RankCost {
  std::string what;
  std::vector<std::uint32_t> ranks;
  double alone_ms = 0;
  double beside_ms = 0;
};

struct Prediction {
  // Time, ms; 0 and `has_time` false when the workload has no timing.
  bool has_time = false;
  double step_ms = 0;                   ///< anchored when GPU-bound
  double host_ms = 0;                   ///< unthrottled host work of one step
  double gpu_step_ms = 0;               ///< the step with a host that costs nothing
  double compute_ms = 0;                ///< compute stream busy
  double communication_ms = 0;          ///< union of all collectives
  double exposed_communication_ms = 0;  ///< of that, while the compute stream is idle
  double idle_ms = 0;                   ///< neither: with compute and exposed communication it is step_ms
  /// For how long the compute stream waits for all-to-alls of expert parallelism, all together (waited_kinds.hpp).
  double exposed_all_to_all_ms = 0;
  Utilization utilization;  ///< MFU
  bool host_bound = false;
  /// Not host_bound, but nothing was measured of the host, and one at the slow end of what is known would be what
  /// binds.
  bool host_may_bind = false;
  std::optional<double> host_binds_from;  ///< then: HostBound::binds_from
  /// Of experts over ranks: how much longer the step is because the host waits for split sizes, which the GPU works
  /// out; none of ranks that differ.
  std::optional<double> split_size_waits_ms;
  [[nodiscard]] BoundBy bound_by() const;
  StepFloor floor;  ///< of the step and of every order of its ops; of ranks that differ not known
  HostConfidence host = HostConfidence::recorded;
  Interval interval;      ///< nine of ten measured steps lie in it
  double difference = 0;  ///< relative: a plan of the same source that differs by less may as well be the faster one
  /// Of how many steps, one behind the other, the times are the mean; 1 where the workload's steps are equal.
  std::size_t cycle = 1;
  double work = 0;  ///< samples or tokens of such a step and GPU (throughput.hpp); 0: not known

  // Memory of the last step, or of the one that ran out of memory until it did; bytes.
  MemoryPeaks peaks;
  std::int64_t num_alloc_retries = 0;
  GraphPool graph_pool;       ///< of the reserved bytes those of a CUDA graph
  Bytes memory_capacity = 0;  ///< what the caching allocator may take: the machine's memory, or the limit asked for
  std::optional<OutOfMemory> out_of_memory;
  std::int32_t out_of_memory_step = -1;  ///< −1: in setup, or none did
  /// Each step of a recording whose steps differ, up to the one that ran out of memory; else empty.
  std::vector<PredictedStep> steps;
  bool peaks_depend_on_time = false;  ///< record_stream: frees follow GPU progress, which is simulated
  /// Then, each over hosts that are faster and slower (add_peak_range()); else both equal `peaks`.
  MemoryPeaks least_peaks;
  MemoryPeaks most_peaks;
  /// Then, of steps that are alike on ranks that are alike: what memory comes to in a longer run.
  std::optional<SettledMemory> settled;
  bool may_run_out_of_memory = false;  ///< with one of those hosts, where `out_of_memory` is none
  bool addresses_invented = false;     ///< some segment addresses are the driver model's, which can break ties

  /// What ran for each kind of collective, and why it is not what was asked for.
  std::vector<CollectiveRan> collectives_ran;

  /// Where the recording is another machine's: its profile's name (or the GPU's where it has none), and by class of
  /// kernels what the last step's take there and here. The times of `host_scale` are of that machine.
  std::string recorded_on;
  std::vector<Repriced> repriced;

  /// Whose times, memory and run these are: where ranks have lengths of their own the lowest of those that reserve
  /// most, else 0; and where a rank's own program runs out of memory, the lowest that runs it.
  std::uint32_t told_rank = 0;
  double mean_seq = 0;  ///< where ranks have lengths of their own: tokens a sample in the mean of them, which `work`
                        ///< and MFU are of
  /// Where ranks differ: by lowest rank. The told rank's exposed communication includes its waiting for other ranks.
  std::vector<RankGroup> ranks;
  std::optional<Stragglers> stragglers;    ///< then: who waits for whom, of Run::rank_ops
  bool unlike = false;                     ///< ranks or links that differ were asked for
  double step_alike_ms = 0;                ///< then: the step if all ranks were alike, and no other traffic
  BackgroundLoad background;               ///< that was asked for …
  std::vector<SlowAdapter> slow_adapters;  ///< … and these
  std::vector<SlowLink> slow_links;
  std::vector<RankCost> rank_costs;  ///< then: what each difference costs

  std::optional<Deadlock> deadlock;
  HostScale host_scale;
  bool valid = true;
  std::vector<std::string> not_valid;  ///< why not: those of the warnings that say so
  std::size_t not_measured = 0;        ///< of those: prices of collectives that no measurement stands behind
  /// Of those: what the wanted settings change and neither the recording nor the machine profile has times of, so that
  /// there is no step (`has_time` false).
  std::vector<std::string> time_unknown;
  /// Foreshard's own run is planned, and the workload does not say what its kernels compute: times are
  /// those of `run --emulate`, not to be compared with those of a workload that does.
  bool emulated = false;
  std::vector<std::string> warnings;
  Run run;  ///< the whole simulated run
  /// Of num_alloc_retries those in what step_ms is of …
  std::int64_t step_num_alloc_retries = 0;
  /// … and what they take of it: the GPU is waited for, cudaFree and cudaMalloc called (sim/machine/driver_calls.hpp).
  /// That much less is the step of a process whose driver neither waits nor takes time. A step that gives segments back
  /// without a retry (garbage_collection_threshold) has it, too; 0 of one that does not, and of a step alone.
  double retries_ms = 0;

  /// Where ranks wait for one another for ever, beside `deadlock`, which has the same in words.
  std::optional<Hang> hang;
  /// Where jitter was asked for and steps have times. Everything else is of a job without chance.
  std::optional<TrialTimes> trials;
  std::uint32_t longest_drawn = 0;          ///< where ranks draw lengths: the longest, which all but `trials` is of
  std::optional<DrawnMemory> drawn_memory;  ///< where ranks draw lengths and it was asked for
  /// Whether one of these processes runs out of memory, as a forecast counts it: then the job has no step (`has_time`
  /// is false, and there are no `trials`), though the longest samples alone may fit.
  [[nodiscard]] bool lengths_run_out() const { return drawn_memory && drawn_memory->out_of_memory > 0; }
  std::vector<Trial> part_of_trials;  ///< where one part of them was asked for; `trials` is empty then
  /// Where it was asked for and steps have times. Everything else is of this job alone on the machine.
  std::optional<BesideTimes> beside;
  /// Where it was asked for and steps have times. Everything else is of this job while its links are up.
  std::optional<FlappingTimes> flapping;
  /// Whether that ends the job with an error.
  [[nodiscard]] bool link_ends_job() const { return flapping && flapping->job_end; }
  /// The rank that was late in the recording (HostScale::late_rank) and is not in this plan, which repeats another
  /// rank's times for it; -1: none was, or it runs a source of its own (RankDifference::workload).
  std::int32_t keeps_up = -1;
  std::vector<RankShape> rank_shapes;  ///< of the source (Workload::rank_shapes)
  /// Of these, late_with_more() than the rank that the source's program is of.
  std::vector<std::uint32_t> with_more = {};
  bool counts_ranks = false;  ///< `work` and `utilization` are the means of these (shapes_of_job())
};

/// Where collectives run otherwise than asked for: why, once each, in the order of collectives_ran.
[[nodiscard]] std::vector<std::string> not_as_asked(const Prediction& prediction);

/// Place of the step with the largest peak of reserved memory, then of allocated; the first of equal ones.
[[nodiscard]] std::size_t largest_step(const std::vector<PredictedStep>& steps);
/// Where recorded steps differ, the peaks of the one with the largest peak of reserved memory, which decides what fits;
/// else those of the last.
[[nodiscard]] MemoryPeaks largest_peaks(const Prediction& prediction);
/// What the process comes to reserve: of these, or of a longer run (Prediction::settled).
[[nodiscard]] Bytes most_reserved(const Prediction& prediction);
/// Whether a longer run is out of memory, where the told steps are not.
[[nodiscard]] bool runs_out_later(const Prediction& prediction);
/// Whether the allocator retries in the steady step, or later again and again.
[[nodiscard]] bool keeps_retrying(const Prediction& prediction);
/// The step, or where that has none and a longer run retries again and again the mean there; ms, 0: not known.
[[nodiscard]] double lasting_step_ms(const Prediction& prediction);

/// Whether the workload was made from a model: its kernels say what they compute and the machine prices them. Nothing
/// was recorded, so nothing is calibrated or anchored.
[[nodiscard]] bool from_model(const Workload& workload);

/// Whether the step of a plan, or whether it is valid, differs between host-bound and not: where it is anchored, where
/// the host is another program's, and where the recorded one's time for FSDP2's calls was exchanged.
[[nodiscard]] bool follows_host_bound(const Workload& workload, const Settings& settings, const HostScale& scale);

/// Fails (usage) where `limit` holds no segment, or is more than the machine gives the caching allocator, as that is
/// printed: 138.8GiB is all of a machine that gives "138.8 GiB".
[[nodiscard]] Result<void> check_memory_limit(std::optional<Bytes> limit, const MachineProfile& machine);

/// The workload says whose program is planned (Workload::lowering); the settings are as that program carries them out.
[[nodiscard]] Result<Prediction> predict(const Workload& workload, const MachineProfile& machine,
                                         const PredictRequest& wanted);

}  // namespace foreshard::sim
