#include "sim/sweep/remedies.hpp"

#include <algorithm>
#include <set>
#include <tuple>

#include "core/settings/settings_table.hpp"
#include "sim/sweep/candidates.hpp"
#include "sim/sweep/outcome.hpp"

namespace foreshard::sim {
namespace {

Remedy as_remedy(const Settings& base, const Candidate& candidate, const Outcome& outcome, const Remedies& all) {
  Remedy remedy;
  remedy.setting = candidate.setting;
  remedy.reason = candidate.reason;
  remedy.pytorch = candidate.pytorch.empty() ? pytorch_text(base, candidate.settings) : candidate.pytorch;
  remedy.settings = candidate.settings;
  remedy.peaks = outcome.peaks;
  remedy.saving = static_cast<std::int64_t>(all.before.reserved) - static_cast<std::int64_t>(outcome.peaks.reserved);
  remedy.may_run_out_of_memory = outcome.may_run_out_of_memory;
  remedy.has_time = outcome.has_time && outcome.emulated == all.emulated;
  remedy.step_ms = outcome.step_ms;
  remedy.uncertainty = outcome.uncertainty;
  remedy.valid = outcome.valid;
  remedy.not_valid = outcome.not_valid;
  remedy.warnings = outcome.warnings;
  remedy.cures = candidate.cures;
  return remedy;
}

/// The settings that a remedy changes, by key; nodes as well where it takes more of them.
std::set<std::string> changed(const Settings& base, const Remedy& remedy) {
  const auto before = setting_options(base);
  const auto after = setting_options(remedy.settings);
  std::set<std::string> keys;
  for (std::size_t i = 0; i < before.size(); ++i)
    if (before[i].second != after[i].second) keys.insert(before[i].first);
  return keys;
}

/// Those that change all that an earlier one changes, and more, or as much on more nodes.
void leave_out_larger(const Settings& base, std::vector<Remedy>& remedies) {
  std::vector<Remedy> kept;
  for (Remedy& remedy : remedies) {
    const auto keys = changed(base, remedy);
    const bool larger = std::any_of(kept.begin(), kept.end(), [&](const Remedy& other) {
      const auto fewer = changed(base, other);
      const bool as_sure = other.valid >= remedy.valid && other.may_run_out_of_memory <= remedy.may_run_out_of_memory;
      return as_sure && std::includes(keys.begin(), keys.end(), fewer.begin(), fewer.end());
    });
    if (!larger) kept.push_back(std::move(remedy));
  }
  remedies = std::move(kept);
}

void sort_out(const RemedyRequest& request, const std::vector<Candidate>& list, const std::vector<Outcome>& outcomes,
              Remedies& out) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Outcome& outcome = outcomes[i];
    if (!outcome.reason.empty() || outcome.out_of_memory) {
      out.impossible.push_back(list[i].setting + ": " +
                               (outcome.reason.empty() ? "runs out of memory" : outcome.reason));
      continue;
    }
    const Remedy remedy = as_remedy(request.settings, list[i], outcome, out);
    if (remedy.saving > 0 || out.out_of_memory)
      out.useful.push_back(remedy);
    else
      ++out.useless;
  }
  const auto most_saved = [](const Remedy& a, const Remedy& b) { return a.saving > b.saving; };
  const auto fastest = [](const Remedy& a, const Remedy& b) {
    const auto key = [](const Remedy& r) {
      return std::tuple(r.settings.nodes, !r.valid, r.may_run_out_of_memory, !r.has_time, r.step_ms);
    };
    return key(a) < key(b);
  };
  if (out.out_of_memory) {
    std::stable_sort(out.useful.begin(), out.useful.end(), fastest);
    leave_out_larger(request.settings, out.useful);
  } else {
    std::stable_sort(out.useful.begin(), out.useful.end(), most_saved);
  }
}

}  // namespace

const Remedy* best_against(const Remedies& remedies, CauseKind cause) {
  const Remedy* best = nullptr;
  const auto options = [](const Remedy& remedy) {
    return std::count(remedy.setting.begin(), remedy.setting.end(), ' ');
  };
  std::int64_t most = 0;
  for (const Remedy& remedy : remedies.useful) {
    if (std::find(remedy.cures.begin(), remedy.cures.end(), cause) == remedy.cures.end()) continue;
    if (best == nullptr) most = remedy.saving;
    const bool close = remedy.saving >= most - most / 20;
    if (best == nullptr || (close && options(remedy) < options(*best))) best = &remedy;
  }
  return best;
}

Result<Remedies> find_remedies(WorkloadSource& source, const MachineProfile& machine, const RemedyRequest& request) {
  FORESHARD_TRY(check_memory_limit(request.memory_limit, machine));
  const auto host_scale = common_host_scale(source, machine, request.settings);
  FORESHARD_TRY(host_scale);
  const Simulated how{source, machine, request.memory_limit, *host_scale};
  const auto base = simulate_settings(how, request.settings);
  FORESHARD_TRY(base);
  Remedies out;
  out.before = base->peaks;
  out.out_of_memory = base->out_of_memory;
  out.has_time = base->has_time;
  out.step_ms = base->step_ms;
  out.emulated = base->emulated;
  const std::vector<Candidate> list = candidates(request.settings, base->out_of_memory);
  out.tried = list.size();
  const std::vector<Outcome> outcomes = simulate_all(how, list, request.threads, request.on_progress);
  sort_out(request, list, outcomes, out);
  return out;
}

}  // namespace foreshard::sim
