#include "sim/sweep/time_remedies.hpp"

#include <algorithm>
#include <set>

#include "core/settings/settings_table.hpp"
#include "core/workload/workload.hpp"
#include "sim/predict/interval.hpp"
#include "sim/sweep/outcome.hpp"
#include "sim/sweep/time_candidates.hpp"
#include "sim/sweep/wrapped_modules.hpp"

namespace foreshard::sim {
namespace {

class Finder {
 public:
  Finder(const Simulated& how, const RemedyRequest& request, const Outcome& base, const Workload& workload)
      : how_(how),
        request_(request),
        base_(base),
        list_(time_candidates(request.settings, {root_has_weights(workload), workload.lowering, computes(workload)})) {
    out_.before = base.peaks;
    out_.step_ms = base.step_ms;
    out_.exposed_communication_ms = base.exposed_communication_ms;
    out_.host_bound = base.host_bound;
    out_.own_not_valid = base.not_valid;
    out_.same = base.difference;
  }

  TimeRemedies find() {
    std::vector<Candidate> singles;
    for (const TimeCandidate& one : list_) singles.push_back(one.candidate);
    const auto outcomes = simulate_all(how_, singles, request_.threads, request_.on_progress);
    out_.tried = singles.size();
    for (std::size_t i = 0; i < singles.size(); ++i) {
      if (list_[i].kind == ChangeKind::ends) out_.not_split = outcomes[i].reason;
      if (sort_in(singles[i], outcomes[i])) faster_.push_back({i, out_.step_ms - outcomes[i].step_ms});
    }
    try_together();
    const auto by_time = [](const TimeRemedy& a, const TimeRemedy& b) { return a.saved_ms > b.saved_ms; };
    for (auto* remedies : {&out_.faster, &out_.not_valid, &out_.no_difference, &out_.slower})
      std::stable_sort(remedies->begin(), remedies->end(), by_time);
    return std::move(out_);
  }

 private:
  struct Faster {
    std::size_t candidate = 0;
    double saved_ms = 0;
  };

  /// Whether it is valid and faster.
  bool sort_in(const Candidate& candidate, const Outcome& outcome, std::size_t changes = 1) {
    if (!outcome.time_unknown.empty() && outcome.reason.empty()) {
      out_.not_timed.push_back(candidate.setting + ": " + outcome.time_unknown.front());
      return false;
    }
    if (!outcome.reason.empty() || outcome.out_of_memory || !outcome.has_time || outcome.emulated != base_.emulated) {
      const std::string why = !outcome.reason.empty() ? outcome.reason
                              : outcome.out_of_memory ? "runs out of memory"
                                                      : "the workload does not say how long it takes";
      out_.impossible.push_back(candidate.setting + ": " + why);
      return false;
    }
    TimeRemedy remedy;
    remedy.setting = candidate.setting;
    remedy.reason = candidate.reason;
    remedy.pytorch =
        pytorch_text(request_.settings, candidate.settings, wrapped_modules(how_.source, candidate.settings));
    remedy.settings = candidate.settings;
    remedy.changes = changes;
    remedy.step_ms = outcome.step_ms;
    remedy.saved_within = out_.step_ms * difference_within(out_.same, outcome.difference);
    remedy.exposed_communication_ms = outcome.exposed_communication_ms;
    remedy.peaks = outcome.peaks;
    remedy.more_reserved =
        static_cast<std::int64_t>(outcome.peaks.reserved) - static_cast<std::int64_t>(out_.before.reserved);
    remedy.warnings = outcome.warnings;
    for (const std::string& why : outcome.not_valid)
      if (std::find(base_.not_valid.begin(), base_.not_valid.end(), why) == base_.not_valid.end())
        remedy.not_valid.push_back(why);
    if (outcome.may_run_out_of_memory && !base_.may_run_out_of_memory)
      remedy.not_valid.emplace_back("record_stream: with a host of another speed it may run out of memory");
    return file(std::move(remedy));
  }

  /// Into the list that it belongs to; whether it is valid and faster.
  bool file(TimeRemedy remedy) {
    remedy.saved_ms = out_.step_ms - remedy.step_ms;
    const bool faster = remedy.saved_ms >= remedy.saved_within;
    const bool valid = remedy.not_valid.empty();
    (!valid                                   ? out_.not_valid
     : faster                                 ? out_.faster
     : remedy.saved_ms > -remedy.saved_within ? out_.no_difference
                                              : out_.slower)
        .push_back(std::move(remedy));
    return faster && valid;
  }

  /// The fastest of each kind, one on top of the other; kept where it beats them all by more than is told apart. Not
  /// the reduce dtype, which changes the results.
  void try_together() {
    std::stable_sort(faster_.begin(), faster_.end(),
                     [](const Faster& a, const Faster& b) { return a.saved_ms > b.saved_ms; });
    std::set<ChangeKind> kinds;
    Candidate all;
    all.settings = request_.settings;
    for (const Faster& one : faster_)
      if (list_[one.candidate].kind != ChangeKind::reduce_dtype && kinds.insert(list_[one.candidate].kind).second)
        list_[one.candidate].change(all.settings);
    if (kinds.size() < 2 || !check(all.settings)) return;
    all.setting = setting_text(request_.settings, all.settings);
    all.reason = "the fastest of each kind together";
    auto outcome = simulate_settings(how_, all.settings);
    ++out_.tried;
    if (!outcome) {
      out_.impossible.push_back(all.setting + ": " + outcome.error().what);
      return;
    }
    if (outcome->has_time && !outcome->out_of_memory &&
        outcome->step_ms > out_.step_ms - faster_.front().saved_ms - out_.step_ms * out_.same)
      return;
    (void)sort_in(all, *outcome, kinds.size());
  }

  const Simulated& how_;
  const RemedyRequest& request_;
  const Outcome& base_;
  std::vector<TimeCandidate> list_;
  std::vector<Faster> faster_;
  TimeRemedies out_;
};

}  // namespace

Result<TimeRemedies> find_time_remedies(WorkloadSource& source, const MachineProfile& machine,
                                        const RemedyRequest& request) {
  FORESHARD_TRY(check_memory_limit(request.memory_limit, machine));
  const auto host_scale = common_host_scale(source, machine, request.settings);
  FORESHARD_TRY(host_scale);
  const Simulated how{source, machine, request.memory_limit, *host_scale};
  const auto base = simulate_settings(how, request.settings);
  FORESHARD_TRY(base);
  if (!base->reason.empty() || base->out_of_memory || !base->has_time)
    return fail(ErrorKind::usage,
                !base->reason.empty() ? base->reason
                : base->out_of_memory ? "the run's own settings run out of memory"
                                      : "the workload has no times",
                "", base->out_of_memory ? "explain without --time says what gives memory back" : "record a trace");
  const auto workload = source.at(request.settings);
  FORESHARD_TRY(workload);
  return Finder(how, request, *base, **workload).find();
}

}  // namespace foreshard::sim
