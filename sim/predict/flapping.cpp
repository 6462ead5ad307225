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

constexpr double kAllDraws = 18446744073709551616.0;  // 2^64

/// From 0 to less than 1.
double drawn(std::uint64_t seed, std::size_t number) {
  return static_cast<double>(mixed(seed, number)) / kAllDraws;
}

/// How a link's outages lie among the steps.
struct Outages {
  std::int64_t steps = 0;  ///< of the one in which one begins and those behind it that it may lengthen
  bool far_apart = false;
};

class FlappingJob {
 public:
  FlappingJob(const Settings& settings, const SimulationRequest& request, const FlappingRequest& flapping,
              std::size_t steady)
      : settings_(settings), request_(request), flapping_(flapping), steady_(steady) {}

  Result<FlappingSteps> play(const Workload& workload, const MachineProfile& machine, const Differences& differences,
                             Nanoseconds step) {
    const bool no_steps = std::any_of(flapping_.links.begin(), flapping_.links.end(), ends_job);
    if (!no_steps) FORESHARD_TRY(choose_steps(step));
    SimulationRequest longer = request_;
    longer.steps.steps = static_cast<std::int32_t>(static_cast<std::int64_t>(steady_) + most_steps() + 2);
    auto ranks = rank_programs(workload, settings_, machine, longer, differences);
    FORESHARD_TRY(ranks);
    if (ranks->follows_gpu) FORESHARD_TRY(refuse_record_stream(settings_));
    ranks_ = std::move(*ranks);
    const ModelledCollectives collectives(ranks_.machine);
    collectives_ = &collectives;
    FORESHARD_TRY(check_all_are_met());
    FlappingSteps out;
    if (no_steps) return out;
    const std::vector<Nanoseconds> reference = ends(flaps_with({}, {}), most_steps());
    out.without = {(reference.back() - reference.front()).count / most_steps()};
    without_ = out.without;
    for (std::size_t link = 0; link < outages_.size(); ++link)
      if (outages_[link].far_apart) out.plays.push_back({link, {}});
    if (out.plays.size() < outages_.size()) out.plays.push_back({std::nullopt, {}});
    for (FlappingPlay& play : out.plays) play.trials.resize(flapping_.trials);
    const std::size_t all = out.plays.size() * flapping_.trials;
    const auto work = [&](std::size_t i) {
      FlappingPlay& play = out.plays[i / flapping_.trials];
      const std::size_t trial = i % flapping_.trials;
      play.trials[trial] = play.link ? with_outage(*play.link, trial, {reference[0], reference[1]}) : between(trial);
    };
    const auto progress = [&](std::size_t done) { flapping_.progress(done, all); };
    for_each(all, trial_threads(settings_.world(), flapping_.threads), work,
             flapping_.progress ? std::function<void(std::size_t)>(progress) : nullptr);
    return out;
  }

 private:
  /// `step`: about what one takes.
  Result<void> choose_steps(Nanoseconds step) {
    const std::int64_t one = std::max<std::int64_t>(1, step.count);
    Nanoseconds longest;  // of those that follow closely
    for (const FlappingLink& link : flapping_.links) {
      Outages own{kStepsBehind + (link.left > 0 ? link.down.count / one + 1 : 0), false};
      const std::int64_t until = (static_cast<std::int64_t>(steady_) + 1 + own.steps) * one + link.down.count;
      own.far_apart = link.period.count - link.down.count > until;
      if (!own.far_apart) longest = std::max(longest, link.period);
      FORESHARD_TRY(check_steps(own.steps, step, link));
      outages_.push_back(own);
    }
    std::int64_t periods = kPeriods;
    while (periods > 1 && periods * longest.count / one >= kMaxFlappingSteps) --periods;
    for (std::size_t i = 0; i < outages_.size(); ++i) {
      if (outages_[i].far_apart) continue;
      steps_between_ = std::max({steps_between_, outages_[i].steps, periods * longest.count / one + 1});
      FORESHARD_TRY(check_steps(steps_between_, step, flapping_.links[i]));
    }
    return {};
  }

  static Result<void> check_steps(std::int64_t steps, Nanoseconds step, const FlappingLink& link) {
    if (steps <= kMaxFlappingSteps) return {};
    return fail(ErrorKind::usage,
                fmt::format("{} steps of {:.2f} ms would be played for each outage: more than {}", steps, step.ms(),
                            kMaxFlappingSteps),
                option(link), "a link that is slow for so long is planned as one that always is (--slow-adapter)");
  }

  static const char* option(const FlappingLink& link) {
    return link.kind == FlappingLink::Kind::adapter ? "--flapping-adapter" : "--flapping-uplinks";
  }

  [[nodiscard]] Result<void> check_all_are_met() const {
    const JobOnNetwork job{ranks_.programs[0].log->communicators, settings_.world()};
    const JobNetwork network(ranks_.machine, *collectives_, {job}, settings_.gpus, flaps_with({}, {}));
    for (std::size_t i = 0; i < flapping_.links.size(); ++i)
      if (!network.flap_is_met(i))
        return fail(ErrorKind::usage, fmt::format("no collective of the job goes over {}", words(flapping_.links[i])),
                    option(flapping_.links[i]), "name a link that one does");
    return {};
  }

  [[nodiscard]] std::int64_t most_steps() const {
    std::int64_t out = std::max<std::int64_t>(1, steps_between_);
    for (const Outages& one : outages_) out = std::max(out, one.steps);
    return out;
  }

  /// All links, of which those that `flap` begin an outage at their phase; the others stay up.
  [[nodiscard]] std::vector<Flap> flaps_with(const std::vector<bool>& flap,
                                             const std::vector<Nanoseconds>& phases) const {
    std::vector<Flap> out;
    for (std::size_t i = 0; i < flapping_.links.size(); ++i) {
      out.push_back({flapping_.links[i], i < phases.size() ? phases[i] : Nanoseconds{}});
      if (i >= flap.size() || !flap[i]) out.back().link.down = {};
    }
    return out;
  }

  /// When each link goes down, somewhere in its period: that of `dealt` in the trial's part of it.
  [[nodiscard]] std::vector<Nanoseconds> draw_phases(std::size_t dealt, std::size_t trial) const {
    std::vector<Nanoseconds> out;
    for (std::size_t i = 0; i < flapping_.links.size(); ++i)
      out.push_back(flapping_.links[i].period.scaled(
          i == dealt ? place_in_part(trial) : drawn(mixed(flapping_.seed, flapping_.trials + i), trial)));
    return out;
  }

  /// In the trial's of equal parts of 1.
  [[nodiscard]] double place_in_part(std::size_t trial) const {
    return (static_cast<double>(trial) + drawn(flapping_.seed, trial)) / flapping_.trials;
  }

  /// When a step begins and ends.
  struct Span {
    Nanoseconds begin, end;
  };

  /// `first`: the first step where all links are up.
  [[nodiscard]] FlappingTrial with_outage(std::size_t link, std::size_t trial, Span first) const {
    std::vector<Nanoseconds> phases = draw_phases(link, trial);
    std::vector<bool> flap(flapping_.links.size(), true);
    if (flap.size() > 1) {  // the others may have moved it
      flap[link] = false;
      const std::vector<Nanoseconds> at = ends(flaps_with(flap, phases), 1);
      first = {at[0], at[1]};
      flap[link] = true;
    }
    FlappingTrial out{{}, first.end - first.begin};
    phases[link] = first.begin + out.begun_in.scaled(place_in_part(trial));
    const std::vector<Nanoseconds> at = ends(flaps_with(flap, phases), outages_[link].steps);
    for (std::size_t i = 1; i < at.size(); ++i) {
      FlappingStep step{at[i] - at[i - 1], 1};
      for (std::size_t other = 0; other < outages_.size(); ++other)
        if (other != link && outages_[other].far_apart && is_of(other, phases[other], at, i)) ++step.outages;
      out.steps.push_back(step);
    }
    return out;
  }

  /// Whether the step that ends at at[i] is one of the outage of `link` that began last before.
  [[nodiscard]] bool is_of(std::size_t link, Nanoseconds phase, const std::vector<Nanoseconds>& at,
                           std::size_t i) const {
    const std::int64_t period = flapping_.links[link].period.count;
    const Nanoseconds down{at[i].count - 1 - ((at[i].count - 1 - phase.count) % period + period) % period};
    std::size_t begun = i;  // the step in which it did
    while (begun > 1 && at[begun - 1] > down) --begun;
    std::int64_t before = 0;  // steps of which none is played
    if (at[0] > down) before = ((at[0] - down).count + without_.count - 1) / std::max<std::int64_t>(1, without_.count);
    return static_cast<std::int64_t>(i - begun) + before < outages_[link].steps;
  }

  /// The links alone whose outages follow closely.
  [[nodiscard]] FlappingTrial between(std::size_t trial) const {
    std::vector<bool> flap;
    for (const Outages& one : outages_) flap.push_back(!one.far_apart);
    const auto first = static_cast<std::size_t>(std::find(flap.begin(), flap.end(), true) - flap.begin());
    const std::vector<Nanoseconds> at = ends(flaps_with(flap, draw_phases(first, trial)), steps_between_);
    FlappingTrial out;
    for (std::size_t i = 1; i < at.size(); ++i) out.steps.push_back({at[i] - at[i - 1], 1});
    return out;
  }

  /// Of so many steps, the steady one's first: when the last rank ends each, behind when that begins.
  [[nodiscard]] std::vector<Nanoseconds> ends(std::vector<Flap> flaps, std::int64_t steps) const {
    JobRequest request = job_of(ranks_, request_, {collectives_, settings_.gpus, std::move(flaps)});
    request.threads = 1;
    request.last_step = steady_ + static_cast<std::size_t>(steps);
    const Job job = simulate_job(ranks_.machine, request);
    std::vector<Nanoseconds> out;
    for (std::size_t step = steady_; step <= *request.last_step; ++step) out.push_back(job.last_end(step));
    return out;
  }

  const Settings& settings_;
  const SimulationRequest& request_;
  const FlappingRequest& flapping_;
  std::size_t steady_;
  std::vector<Outages> outages_;    // by link
  std::int64_t steps_between_ = 0;  // where some follow closely
  Nanoseconds without_;
  RankPrograms ranks_;
  const CollectiveCost* collectives_ = nullptr;
};

/// FlappingTrial::begun_in of all, ms.
double mean_begun_in(const FlappingPlay& play) {
  double sum = 0;
  for (const FlappingTrial& trial : play.trials) sum += trial.begun_in.ms();
  return sum / static_cast<double>(play.trials.size());
}

}  // namespace

FlappingTimes flapping_times(const FlappingRequest& request, const FlappingSteps& played, double longer_ms) {
  FlappingTimes out;
  out.links = request.links;
  out.seed = request.seed;
  out.without_ms = played.without.ms() + longer_ms;
  std::vector<Weighted> values;
  // A run in which the first link whose outages lie far apart has one for each of its trials.
  double run = 0, rest = 0;
  double outages = 0;  // in a ms
  for (const FlappingLink& link : request.links) outages += 1 / link.period.ms();
  for (const FlappingPlay& play : played.plays) {
    const double of_run =
        play.link ? request.links[*play.link].period.ms() * static_cast<double>(play.trials.size()) : 0;
    if (run == 0) run = rest = of_run;
    double all = 0;  // of steps that are played between outages
    for (const FlappingTrial& trial : play.trials)
      for (const FlappingStep& step : trial.steps) all += step.time.ms() + longer_ms;
    const double of_all = play.link ? run / of_run : run > 0 ? std::max(0.0, rest) / all : 1;
    const double begun_in = play.link ? mean_begun_in(play) + longer_ms : 0;
    for (const FlappingTrial& trial : play.trials) {
      const double as_often = begun_in > 0 ? of_all * (trial.begun_in.ms() + longer_ms) / begun_in : of_all;
      for (const FlappingStep& step : trial.steps) {
        values.push_back({step.time.ms() + longer_ms, as_often / step.outages});
        rest -= values.back().steps * values.back().ms;
      }
      out.steps = std::max(out.steps, static_cast<std::uint32_t>(trial.steps.size()));
    }
    out.trials += static_cast<std::uint32_t>(play.trials.size());
  }
  if (played.plays.back().link && rest > 0) values.push_back({out.without_ms, rest / out.without_ms});
  out.step_ms = distribution_of(std::move(values));
  out.outage_costs = (1 - out.without_ms / out.step_ms.mean) / outages;
  return out;
}

std::optional<JobEnd> job_end(const std::vector<FlappingLink>& links, double step_ms, std::uint32_t world) {
  const Nanoseconds step{static_cast<std::int64_t>(std::llround(step_ms * 1e6))};
  const Nanoseconds most = kTransportGivesUp + step;
  std::optional<JobEnd> out;
  for (const FlappingLink& link : links) {
    if (!ends_job(link)) continue;
    JobEnd end{link, {}, most.ms() / 1e3 * world};
    if (link.down >= most) end.within = link.period - link.down + most;
    const bool sooner = out && end.within && (!out->within || *end.within < *out->within);
    if (!out || sooner) out = end;
  }
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
