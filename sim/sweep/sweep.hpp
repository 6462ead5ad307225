// Many predictions of one source: every point of a space of options, on all cores.
//
// Who: cli's sweep; tests/bench. Results are in the order of the points and equal to the byte for any number of
// threads: a point depends on its own settings alone.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/parallel/part.hpp"
#include "sim/predict/predict.hpp"
#include "sim/sweep/pareto.hpp"
#include "sim/sweep/ranges.hpp"

namespace foreshard::sim {

/// Where a point's workload comes from: one capture for all, or a model that is generated anew where settings shape
/// its program. at() is called from many threads at once.
class WorkloadSource {
 public:
  virtual ~WorkloadSource() = default;
  /// What a prediction at `settings` starts from.
  [[nodiscard]] virtual Result<std::shared_ptr<const Workload>> at(const Settings& settings) = 0;
  /// Whether every point has the same workload, so that its calibration is found once.
  [[nodiscard]] virtual bool one_for_all() const = 0;
  /// Of one workload for all: its calibration on the machine of the points, where that is known; none: to be found.
  [[nodiscard]] virtual std::optional<HostScale> host_scale() const { return std::nullopt; }
};

/// One capture, or one workload file.
class OneWorkload final : public WorkloadSource {
 public:
  explicit OneWorkload(std::shared_ptr<const Workload> workload, std::optional<HostScale> host_scale = {})
      : workload_(std::move(workload)), host_scale_(host_scale) {}
  [[nodiscard]] Result<std::shared_ptr<const Workload>> at(const Settings&) override { return workload_; }
  [[nodiscard]] bool one_for_all() const override { return true; }
  [[nodiscard]] std::optional<HostScale> host_scale() const override { return host_scale_; }

 private:
  std::shared_ptr<const Workload> workload_;
  std::optional<HostScale> host_scale_;
};

struct SweepPoint {
  enum class State : std::uint8_t { ran = 0, out_of_memory = 1, deadlock = 2, refused = 3 };
  State state = State::ran;
  std::vector<std::string> values;  ///< of each range
  /// That was asked for; settings have it where experts are on several ranks.
  double router_imbalance = 1;
  Settings settings;   ///< empty defaults where the options contradict each other
  std::string reason;  ///< of a refusal or a deadlock
  bool has_time = false;
  double step_ms = 0;
  double host_ms = 0;
  double exposed_communication_ms = 0;
  double exposed_all_to_all_ms = 0;  ///< Prediction::exposed_all_to_all_ms
  bool host_bound = false;
  bool host_binds = false;          ///< host_binds() of the plan
  double uncertainty = 0;           ///< the larger side of the plan's interval, relative to step_ms
  double difference = 0;            ///< Prediction::difference
  StepFloor floor;                  ///< Prediction::floor
  double tokens_per_s_per_gpu = 0;  ///< of samples where the model has no sequence; 0: batch unknown
  /// Of a point that ran out of memory: until then. Reserved memory is most_reserved().
  MemoryPeaks peaks;
  /// Of record_stream, whose peak follows the host's speed: the range of the peak of reserved memory, and whether a
  /// point that ran may run out of memory with another host (Prediction::may_run_out_of_memory).
  Bytes least_reserved = 0;
  Bytes most_reserved = 0;
  bool may_run_out_of_memory = false;
  std::int64_t num_alloc_retries = 0;
  bool valid = true;
  std::vector<std::string> not_valid;  ///< why not
  std::size_t not_measured = 0;        ///< Prediction::not_measured
  std::vector<std::string> warnings;
  std::vector<std::string> not_as_asked = {};  ///< not_as_asked() of its prediction
  /// Of num_alloc_retries those in the steady step (or cycle); 1 where there is none, but keeps_retrying().
  std::int64_t step_num_alloc_retries = 0;
};

/// What a point's prediction shares with those of the same source.
struct PointRequest {
  std::optional<Bytes> memory_limit;    ///< what the caching allocator may take; none: the machine's
  std::optional<HostScale> host_scale;  ///< of a source with one workload for all; none: found anew
  bool step_alone = false;              ///< PredictRequest::step_alone: times but the step's and its `floor` are 0
  Differences differences = {};         ///< what is unlike the rest of each point's job; without ranks' workloads
  bool every_op = false;                ///< PlannedPoint::plan has its Run whole, as memory by category needs it
};

/// A point with all that was predicted of it.
struct PlannedPoint {
  SweepPoint point;
  std::optional<Prediction> plan;  ///< none: refused; its Run has device ops, streams and steps alone, unless asked
};

/// The point of `settings`: as `plan` predicts them, to the digit. A refusal is a state, not an error.
[[nodiscard]] PlannedPoint plan_point(WorkloadSource& source, const MachineProfile& machine,
                                      const PointRequest& request, const Settings& settings);
/// The same without the prediction.
[[nodiscard]] SweepPoint simulate_point(WorkloadSource& source, const MachineProfile& machine,
                                        const PointRequest& request, const Settings& settings);

struct SweepRequest {
  Settings base;
  std::vector<Range> ranges;
  std::optional<Bytes> memory_limit;  ///< what the caching allocator may take; none: the machine's
  unsigned threads = 1;
  std::function<void(std::size_t done, std::size_t points)> on_progress = {};
  /// A point is done: one call at a time, in any order, from any thread. What it says must not shape the result.
  std::function<void(const SweepPoint& point)> on_point = {};
  /// Once, before the first point: how many there are.
  std::function<void(std::size_t points)> on_start = {};
  Part part = {};  ///< points that are not of it are left as they are in `known`, or empty
  /// By point: what is known of it, which is not simulated again; empty: nothing is known.
  std::vector<std::optional<SweepPoint>> known = {};
  Differences differences = {};  ///< as PointRequest's; a point whose job has not that rank or link is refused
  /// Whether no further point is begun; empty: never. Those that were not are left out.
  std::function<bool()> is_over = {};
};

/// Fails where no point can be tried at all: too many points, a base that cannot be calibrated.
[[nodiscard]] Result<std::vector<SweepPoint>> sweep(WorkloadSource& source, const MachineProfile& machine,
                                                    const SweepRequest& request);

/// The points that ran and have a time, for pareto() and fastest(); where none has one, all that ran, as equally fast.
/// Those that are not valid take part only where none is valid, of these those that may run out of memory only where
/// all may, and of points without a time those that retry in each step only where all do: their time would not be
/// valid.
/// Times are compared a token where batch, seq or accumulate differ between points, else a step.
/// `router_imbalance`: of points that were asked for with this one alone, which is what the data does and no choice;
/// none: of all.
[[nodiscard]] std::vector<PointCost> costs(const std::vector<SweepPoint>& points,
                                           std::optional<double> router_imbalance = {});

/// Whether a point lives within the memory that the allocator may take: as `plan` says it.
enum class Fits : std::uint8_t {
  surely = 0,  ///< whatever the host's speed
  maybe = 1,   ///< as predicted, but not with every host
  no = 2,      ///< it runs out of memory, or does not run at all
};
[[nodiscard]] Fits fits(const SweepPoint& point);

/// A reason and how many points it is of. Lists of them: most first; of equally many the first met first.
struct ReasonCount {
  std::string reason;
  std::size_t points = 0;
};
[[nodiscard]] std::vector<ReasonCount> refusals(const std::vector<SweepPoint>& points);
/// Why collectives of points run otherwise than asked for, so that points that ask for different ones are equal.
[[nodiscard]] std::vector<ReasonCount> not_as_asked(const std::vector<SweepPoint>& points);

}  // namespace foreshard::sim
