#include "sim/predict/host_scale.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

#include "sim/predict/host_bound.hpp"
#include "sim/predict/reprice.hpp"
#include "sim/predict/simulate.hpp"

namespace foreshard::sim {
namespace {

constexpr int kBisections = 12;  // of the profile's range of scales, 1: below 0.03 % of the host time

class Search {
 public:
  Search(const Workload& workload, const MachineProfile& machine) : workload_(workload), machine_(machine) {}

  /// Host time of a first step from idle, ms.
  double first_host_ms(double scale) { return times(first_, scale, 1).host.ms(); }
  double steady_ms(double scale) { return times(steady_, scale, steps_of_cycle(workload_)).steady_step.ms(); }

  /// The scale at which the growing function `f` reaches `wanted`.
  template <class F>
  double bisect(F f, double wanted) {
    double low = machine_.prediction.least_host_scale;
    double high = machine_.prediction.most_host_scale;
    for (int i = 0; i < kBisections; ++i) {
      const double middle = (low + high) / 2;
      (f(middle) < wanted ? low : high) = middle;
    }
    return (low + high) / 2;
  }

  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  /// A simulation, and what its host called: other scales need no other.
  struct Simulated {
    std::optional<Simulation> simulation;
    DeviceLog log;
  };

  HostTimes times(Simulated& known, double scale, std::int32_t steps) {
    if (known.simulation && !known.log.depends_on_time())
      return times_of_host(*known.simulation, known.log, machine_, {.host_scale = scale});
    known.log = {};
    known.simulation = run(scale, steps, known.log);
    const auto& ran = known.simulation->outcome.steps;
    return {known.simulation->steady_step(), ran.back().host_end - ran.front().host_begin};
  }

  Simulation run(double scale, std::int32_t steps, DeviceLog& log) {
    Run ignored;
    SimulationRequest request;
    request.steps = {.steps = steps, .record = false, .warm = true};
    request.options.host_scale = scale;
    request.options.log = &log;
    auto result = simulate(workload_, workload_.settings, machine_, request, ignored);
    if (result && !result->outcome.out_of_memory && !result->deadlock) return std::move(*result);
    error_ = result ? Error{ErrorKind::mismatch,
                            "the recorded settings do not run on this machine profile: " +
                                std::string(result->deadlock ? "deadlock" : "out of memory"),
                            workload_.name, "give --machine the machine of the recording"}
                    : result.error();
    Simulation empty;
    empty.outcome.steps.resize(static_cast<std::size_t>(steps));
    return empty;
  }

  const Workload& workload_;
  const MachineProfile& machine_;
  Simulated first_;
  Simulated steady_;
  std::optional<Error> error_;
};

/// Of steps that differ: how far each is from the mean of those a cycle apart, milliseconds, ascending.
std::vector<double> residuals(const Measured& measured) {
  const std::size_t count = measured.step_ms.size();
  const std::size_t warm = std::min(Measured::kWarmUp, count);
  std::vector<double> out;
  for (std::size_t phase = warm; phase < std::min<std::size_t>(warm + measured.cycle, count); ++phase) {
    std::vector<double> same;
    for (std::size_t i = phase; i < count; i += measured.cycle) same.push_back(measured.step_ms[i]);
    const double mean = std::accumulate(same.begin(), same.end(), 0.0) / static_cast<double>(same.size());
    for (const double ms : same) out.push_back(ms - mean);
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// Median, or mean of whole cycles, and spread of the unprofiled steps.
void add_measured(const Measured& measured, HostScale& found) {
  const std::vector<double> steps = measured.cycle > 1 ? residuals(measured) : measured.steady_steps();
  const std::size_t n = steps.size();
  found.measured_ms = measured.steady_ms();
  if (n >= 4) found.spread = (steps[n - 2] - steps[1]) / found.measured_ms;
}

/// Host time of a recorded step that the launch queue did not throttle: the median of those after the first,
/// unless the queue filled up meanwhile (then the first after it, which began with an idle GPU).
double unthrottled_recorded_ms(const Workload& workload, const PredictionSpec& spec) {
  const std::vector<double>& recorded = workload.recorded_host_ms;
  if (recorded.size() < 2) return 0;
  std::vector<double> later(recorded.begin() + 1, recorded.end());
  std::sort(later.begin(), later.end());
  return std::min(later[(later.size() - 1) / 2], spec.throttled_growth * recorded[1]);
}

}  // namespace

bool steps_repeat(const Workload& workload) {
  const std::vector<RecordedStep>& steps = workload.recorded;
  if (steps.empty()) return true;
  const bool first = workload.cycle < steps.size() && steps[0].seq > 0 && steps[0].seq == steps[workload.cycle].seq &&
                     steps[0].batch == steps[workload.cycle].batch;
  return steps.size() - (first ? 0 : 1) >= 2 * workload.cycle;
}

Result<HostScale> find_host_scale(const Workload& workload, const MachineProfile& planned) {
  const auto elsewhere = recorded_elsewhere(workload, planned);
  const MachineProfile& machine = elsewhere && elsewhere->profile ? *elsewhere->profile : planned;
  HostScale found;
  if (!workload.has_timing || !workload.measured) return found;
  add_measured(*workload.measured, found);
  Search search(workload, machine);
  if (!workload.measured->host_issue_ms.empty()) {
    const double slow = search.first_host_ms(1.0);
    const double fast = search.first_host_ms(0.5);
    if (slow - fast < machine.prediction.insensitive * slow) {
      found.factor = machine.prediction.typical_host_scale;
      found.source = HostScale::Source::typical;
    } else {
      const double wanted = workload.measured->host_issue_ms.front();
      found.factor = search.bisect([&](double f) { return search.first_host_ms(f); }, wanted);
      found.source = HostScale::Source::first_step;
    }
  }
  auto bound = host_bound(workload, workload.settings, machine, found.factor);
  FORESHARD_TRY(bound);
  found.host_bound = bound->host_bound;
  found.late_rank = workload.measured->late_rank;
  const bool comparable = found.measured_ms > 0 && steps_repeat(workload) && found.late_rank < 0;
  if (bound->host_bound && comparable) {
    found.factor = search.bisect([&](double f) { return search.steady_ms(f); }, found.measured_ms);
    found.source = HostScale::Source::steady;
  }
  found.recorded_factor = found.factor;
  if (const double recorded = unthrottled_recorded_ms(workload, machine.prediction); recorded > 0)
    found.recorded_factor = search.bisect([&](double f) { return search.first_host_ms(f); }, recorded);
  found.simulated_ms = search.steady_ms(found.factor);
  if (search.error()) return tl::unexpected(*search.error());
  if (!found.host_bound && comparable && found.simulated_ms > 0) found.anchor = found.measured_ms / found.simulated_ms;
  return found;
}

}  // namespace foreshard::sim
