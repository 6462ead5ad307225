#include "sim/predict/host_scale.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/predict/host_bound.hpp"
#include "sim/predict/simulate.hpp"

namespace foreshard::sim {
namespace {

constexpr int kBisections = 12;  // of the profile's range of scales, 1: below 0.03 % of the host time

class Search {
 public:
  Search(const Workload& workload, const MachineProfile& machine) : workload_(workload), machine_(machine) {}

  /// Host time of a first step from idle, ms.
  double first_host_ms(double scale) { return run(scale, 1).host_time(0).ms(); }
  double steady_ms(double scale) { return run(scale, 4).steady_step().ms(); }

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
  Simulation run(double scale, std::int32_t steps) {
    Run ignored;
    SimulationRequest request;
    request.steps = {.steps = steps, .record = false, .warm = true};
    request.options.host_scale = scale;
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
  std::optional<Error> error_;
};

/// Median and spread of the unprofiled steps.
void add_measured(const Measured& measured, Calibration& calibration) {
  const std::vector<double> steps = measured.steady_steps();
  const std::size_t n = steps.size();
  calibration.measured_ms = measured.steady_median();
  if (n >= 4) calibration.spread = (steps[n - 2] - steps[1]) / calibration.measured_ms;
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

Result<Calibration> calibrate(const Workload& workload, const MachineProfile& machine) {
  Calibration calibration;
  if (!workload.has_timing || !workload.measured) return calibration;
  add_measured(*workload.measured, calibration);
  Search search(workload, machine);
  if (!workload.measured->host_issue_ms.empty()) {
    const double slow = search.first_host_ms(1.0);
    const double fast = search.first_host_ms(0.5);
    if (slow - fast < machine.prediction.insensitive * slow) {
      calibration.host_scale = machine.prediction.typical_host_scale;
      calibration.source = Calibration::Source::typical;
    } else {
      const double wanted = workload.measured->host_issue_ms.front();
      calibration.host_scale = search.bisect([&](double f) { return search.first_host_ms(f); }, wanted);
      calibration.source = Calibration::Source::first_step;
    }
  }
  auto bound = host_bound(workload, workload.settings, machine, calibration.host_scale);
  FORESHARD_TRY(bound);
  calibration.host_bound = bound->host_bound;
  if (bound->host_bound && calibration.measured_ms > 0) {
    calibration.host_scale = search.bisect([&](double f) { return search.steady_ms(f); }, calibration.measured_ms);
    calibration.source = Calibration::Source::steady;
  }
  calibration.recorded_host_scale = calibration.host_scale;
  if (const double recorded = unthrottled_recorded_ms(workload, machine.prediction); recorded > 0)
    calibration.recorded_host_scale = search.bisect([&](double f) { return search.first_host_ms(f); }, recorded);
  calibration.simulated_ms = search.steady_ms(calibration.host_scale);
  if (search.error()) return tl::unexpected(*search.error());
  if (!calibration.host_bound && calibration.measured_ms > 0 && calibration.simulated_ms > 0)
    calibration.anchor = calibration.measured_ms / calibration.simulated_ms;
  return calibration;
}

}  // namespace foreshard::sim
