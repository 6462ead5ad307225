#include "sim/predict/flapping.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/collectives/modelled_collectives.hpp"
#include "sim/parallel/for_each.hpp"
#include "sim/predict/rank_programs.hpp"
#include "sim/ranks/job.hpp"
#include "sim/ranks/job_network.hpp"

namespace foreshard::sim {
namespace {

/// So many steps behind the one in which an outage ends a job runs as before it.
constexpr std::int64_t kStepsBehind = 4;
constexpr std::int64_t kPeriods = 4;

/// A value, and how many steps have it.
struct Weighted {
  double ms = 0;
  double steps = 0;
};

/// Quantiles are nearest ranks, as those of trials.
Distribution distribution_of(std::vector<Weighted> values) {
  std::sort(values.begin(), values.end(), [](const Weighted& a, const Weighted& b) { return a.ms < b.ms; });
  double all = 0, sum = 0;
  for (const Weighted& one : values) {
    all += one.steps;
    sum += one.steps * one.ms;
  }
  const auto at = [&](double share) {
    double below = 0;
    for (const Weighted& one : values)
      if (below += one.steps; below >= share * all) return one.ms;
    return values.back().ms;
  };
  return {at(0.5), at(0.95), sum / all, values.front().ms, values.back().ms};
}

/// The part-th of so many equal parts, and a place drawn in it.
Nanoseconds place_in(Nanoseconds whole, std::uint64_t seed, std::size_t part, std::size_t parts) {
  constexpr double kAll = 18446744073709551616.0;  // 2^64
  const double drawn = static_cast<double>(mixed(seed, part)) / kAll;
  return whole.scaled((static_cast<double>(part) + drawn) / static_cast<double>(parts));
}

class FlappingJob {
 public:
  FlappingJob(const Settings& settings, const SimulationRequest& request, const FlappingRequest& flapping,
              std::size_t steady)
      : settings_(settings), request_(request), flapping_(flapping), steady_(steady) {}

  Result<FlappingSteps> play(const Workload& workload, const MachineProfile& machine, const Differences& differences,
                             Nanoseconds step) {
    const bool no_steps = ends_job(flapping_.link);
    if (!no_steps) FORESHARD_TRY(choose_steps(step));
    SimulationRequest longer = request_;
    longer.steps.steps = static_cast<std::int32_t>(static_cast<std::int64_t>(steady_) + steps_ + 2);
    auto ranks = rank_programs(workload, settings_, machine, longer, differences);
    FORESHARD_TRY(ranks);
    if (ranks->follows_gpu) FORESHARD_TRY(refuse_record_stream(settings_));
    ranks_ = std::move(*ranks);
    const ModelledCollectives collectives(ranks_.machine);
    collectives_ = &collectives;
    const JobOnNetwork job{ranks_.programs[0].log->communicators, settings_.world()};
    if (!JobNetwork(ranks_.machine, collectives, {job}, settings_.gpus, Flap{flapping_.link, {}}).flap_is_met())
      return fail(ErrorKind::usage, "no collective of the job goes over it", option(), "name a link that one does");
    if (no_steps) return FlappingSteps{};
    FlappingLink up = flapping_.link;
    up.down = {};
    const std::vector<Nanoseconds> reference = ends({up, {}});
    FlappingSteps out;
    out.without = {(reference.back() - reference.front()).count / steps_};
    out.one_outage = one_outage_;
    out.steps.resize(flapping_.trials);
    const auto work = [&](std::size_t trial) {
      const Nanoseconds place =
          place_in(one_outage_ ? out.without : flapping_.link.period, flapping_.seed, trial, flapping_.trials);
      const std::vector<Nanoseconds> of = ends({flapping_.link, one_outage_ ? reference.front() + place : place});
      for (std::size_t i = 1; i < of.size(); ++i) out.steps[trial].push_back(of[i] - of[i - 1]);
    };
    for_each(out.steps.size(), trial_threads(settings_.world(), flapping_.threads), work, flapping_.progress);
    return out;
  }

 private:
  /// `step`: about what one takes.
  Result<void> choose_steps(Nanoseconds step) {
    const FlappingLink& link = flapping_.link;
    const std::int64_t one = std::max<std::int64_t>(1, step.count);
    steps_ = kStepsBehind + (link.left > 0 ? link.down.count / one + 1 : 0);
    const std::int64_t until = (static_cast<std::int64_t>(steady_) + 1 + steps_) * one + link.down.count;
    one_outage_ = link.period.count - link.down.count > until;
    std::int64_t periods = kPeriods;
    while (periods > 1 && periods * link.period.count / one >= kMaxFlappingSteps) --periods;
    if (!one_outage_) steps_ = std::max(steps_, periods * link.period.count / one + 1);
    if (steps_ <= kMaxFlappingSteps) return {};
    return fail(ErrorKind::usage,
                fmt::format("{} steps of {:.2f} ms would be played for each outage: more than {}", steps_, step.ms(),
                            kMaxFlappingSteps),
                option(), "a link that is slow for so long is planned as one that always is (--slow-adapter)");
  }

  [[nodiscard]] const char* option() const {
    return flapping_.link.kind == FlappingLink::Kind::adapter ? "--flapping-adapter" : "--flapping-uplinks";
  }

  /// Of the steps, the steady one's first: when the last rank ends each.
  [[nodiscard]] std::vector<Nanoseconds> ends(const Flap& flap) const {
    JobRequest request = job_of(ranks_, request_, {collectives_, settings_.gpus, flap});
    request.threads = 1;
    request.last_step = steady_ + static_cast<std::size_t>(steps_);
    const Job job = simulate_job(ranks_.machine, request);
    std::vector<Nanoseconds> out;
    for (std::size_t step = steady_; step <= *request.last_step; ++step) out.push_back(job.last_end(step));
    return out;
  }

  const Settings& settings_;
  const SimulationRequest& request_;
  const FlappingRequest& flapping_;
  std::size_t steady_;
  std::int64_t steps_ = 0;
  bool one_outage_ = false;
  RankPrograms ranks_;
  const CollectiveCost* collectives_ = nullptr;
};

}  // namespace

FlappingTimes flapping_times(const FlappingRequest& request, const FlappingSteps& played, double longer_ms) {
  FlappingTimes out;
  out.link = request.link;
  out.seed = request.seed;
  out.trials = request.trials;
  out.steps = static_cast<std::uint32_t>(played.steps[0].size());
  out.without_ms = played.without.ms() + longer_ms;
  const double period = request.link.period.ms();
  std::vector<Weighted> values;
  double between = 0;  // steps of a run that no trial plays
  for (const std::vector<Nanoseconds>& trial : played.steps) {
    double sum = 0;
    for (const Nanoseconds step : trial) {
      values.push_back({step.ms() + longer_ms, 1});
      sum += values.back().ms;
    }
    if (played.one_outage) between += std::max(0.0, period - sum) / out.without_ms;
  }
  if (between > 0) values.push_back({out.without_ms, between});
  out.step_ms = distribution_of(std::move(values));
  out.outage_costs = period * (1 - out.without_ms / out.step_ms.mean);
  return out;
}

JobEnd job_end(const FlappingLink& link, double step_ms, std::uint32_t world) {
  const Nanoseconds step{static_cast<std::int64_t>(std::llround(step_ms * 1e6))};
  const Nanoseconds most = kTransportGivesUp + step;
  JobEnd out;
  if (link.down >= most) out.within = link.period - link.down + most;
  out.gpu_seconds = most.ms() / 1e3 * world;
  return out;
}

Result<FlappingSteps> simulate_flapping(const Workload& workload, const Settings& settings,
                                        const MachineProfile& machine, const SimulationRequest& request,
                                        const Differences& differences, const Simulation& alone,
                                        const FlappingRequest& flapping) {
  if (!workload.recorded.empty())
    return fail(ErrorKind::usage, "a link that flaps is not simulated beside recorded steps that differ", {},
                "plan a recording of equal steps, or the model itself");
  return FlappingJob(settings, request, flapping, alone.steady)
      .play(workload, machine, differences, alone.steady_step());
}

}  // namespace foreshard::sim
