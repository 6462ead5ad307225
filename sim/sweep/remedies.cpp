#include "sim/sweep/remedies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <tuple>

#include "core/settings/settings_table.hpp"
#include "sim/parallel/for_each.hpp"
#include "sim/predict/throughput.hpp"
#include "sim/sweep/candidates.hpp"
#include "sim/sweep/enough_memory.hpp"
#include "sim/sweep/largest_fit.hpp"
#include "sim/sweep/outcome.hpp"
#include "sim/sweep/wrapped_modules.hpp"

namespace foreshard::sim {
namespace {

/// The run's own settings where memory never ran out: what a step that fits is longer than.
Result<Outcome> simulate_unlimited(const Simulated& how, const Settings& settings) {
  const MachineProfile machine = with_enough_memory(how.machine);
  return simulate_settings({how.source, machine, {}, how.host_scale}, settings);
}

/// Of one token or sample, where that is known, so that a smaller batch is not the faster one for it.
double time_of_work(const Settings& settings, double step_ms) {
  const double work = work_of_step(settings);
  return work > 0 ? step_ms / work : step_ms;
}

/// The largest batch and sequence length that fit where the run's own do not; where none does, with checkpointing.
/// Where none does even so, the smallest is a candidate, which says why it is impossible.
std::vector<Candidate> largest_sizes(const Simulated& how, const RemedyRequest& request) {
  constexpr std::array<SizeSetting, 2> kBoth{SizeSetting::batch, SizeSetting::seq};
  std::array<std::optional<Candidate>, kBoth.size()> found;
  for_each(kBoth.size(), request.threads, [&](std::size_t i) {
    const bool batch = kBoth[i] == SizeSetting::batch;
    const std::uint32_t own = (batch ? request.settings.batch : request.settings.seq).value_or(1);
    if (own <= 1) return;
    LargestFitRequest wanted{request.settings, request.memory_limit, kBoth[i], 1, own};
    LargestFit largest = largest_fit(how, wanted);
    if (largest.value == 0 && largest.tried.front().refusal.empty() && wanted.settings.checkpoint == Checkpoint::none) {
      wanted.settings.checkpoint = Checkpoint::blocks;
      wanted.below = 0;
      wanted.most = own;
      largest = largest_fit(how, wanted);
      if (std::max(largest.value, largest.with_retries) == own) return;  // checkpointing alone is a candidate
    }
    Candidate& candidate = found[i].emplace();
    candidate.settings = largest.value > 0 ? wanted.settings : request.settings;
    (batch ? candidate.settings.batch : candidate.settings.seq) = std::max(largest.value, 1U);
    candidate.setting = setting_text(request.settings, candidate.settings);
    candidate.reason = fmt::format("the largest {} that fits{}: {}", batch ? "batch size" : "sequence length",
                                   wanted.settings.checkpoint == request.settings.checkpoint
                                       ? ""
                                       : " where activations are computed again in backward",
                                   words_of(largest));
    if (largest.value > 0) candidate.largest = std::move(largest);
  });
  std::vector<Candidate> out;
  for (std::optional<Candidate>& one : found)
    if (one) out.push_back(std::move(*one));
  return out;
}

/// `own`: of the run's own settings, with enough memory.
Remedy as_remedy(const Settings& base, const Candidate& candidate, const Outcome& outcome, const Outcome& own,
                 const Remedies& all) {
  Remedy remedy;
  remedy.setting = candidate.setting;
  remedy.reason = candidate.reason;
  remedy.pytorch = candidate.pytorch;
  remedy.settings = candidate.settings;
  remedy.peaks = outcome.peaks;
  remedy.saving = static_cast<std::int64_t>(all.before.reserved) - static_cast<std::int64_t>(outcome.peaks.reserved);
  remedy.may_run_out_of_memory = outcome.may_run_out_of_memory;
  remedy.retries_each_step = outcome.retries_each_step;
  remedy.has_time = outcome.has_time && outcome.emulated == all.emulated;
  remedy.step_ms = outcome.step_ms;
  remedy.uncertainty = outcome.uncertainty;
  remedy.valid = outcome.valid;
  remedy.not_valid = outcome.not_valid;
  remedy.warnings = outcome.warnings;
  remedy.cures = candidate.cures;
  remedy.largest = candidate.largest;
  remedy.host_bytes_a_node = outcome.offloaded * candidate.settings.gpus;
  const double longest = time_of_work(base, own.step_ms) * (1 + std::max(own.difference, outcome.difference));
  remedy.costs = own.has_time && (!remedy.has_time || time_of_work(remedy.settings, remedy.step_ms) > longest);
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

/// Those that change all that an earlier one changes, and more, or as much on more nodes; how many they are.
std::size_t leave_out_larger(const Settings& base, std::vector<Remedy>& remedies) {
  std::vector<Remedy> kept;
  for (Remedy& remedy : remedies) {
    const auto keys = changed(base, remedy);
    const bool larger = std::any_of(kept.begin(), kept.end(), [&](const Remedy& other) {
      const auto fewer = changed(base, other);
      const bool as_sure = other.valid >= remedy.valid && other.may_run_out_of_memory <= remedy.may_run_out_of_memory &&
                           other.retries_each_step <= remedy.retries_each_step;
      return as_sure && std::includes(keys.begin(), keys.end(), fewer.begin(), fewer.end());
    });
    if (!larger) kept.push_back(std::move(remedy));
  }
  const std::size_t left_out = remedies.size() - kept.size();
  remedies = std::move(kept);
  return left_out;
}

void sort_out(const RemedyRequest& request, const std::vector<Candidate>& list, const std::vector<Outcome>& outcomes,
              const Outcome& own, Remedies& out) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Outcome& outcome = outcomes[i];
    if (!outcome.reason.empty() || outcome.out_of_memory) {
      out.impossible.push_back(list[i].setting + ": " +
                               (outcome.reason.empty() ? "runs out of memory" : outcome.reason));
      continue;
    }
    const Remedy remedy = as_remedy(request.settings, list[i], outcome, own, out);
    const bool grows_later = outcomes[i].most_reserved >= std::max(out.most_reserved, out.before.reserved);
    if ((remedy.saving > 0 && !grows_later) || out.out_of_memory)
      out.useful.push_back(remedy);
    else
      ++out.useless;
  }
  const auto most_worth = [](const Remedy& a, const Remedy& b) { return a.worth() > b.worth(); };
  const auto fastest = [&](const Remedy& a, const Remedy& b) {
    const auto key = [&](const Remedy& r) {
      const bool shorter = r.settings.seq != request.settings.seq;
      const int known = !r.has_time ? 2 : r.retries_each_step || shorter ? 1 : 0;
      // What asks for another machine than there is: more GPUs, or the host's memory. Of these the faster for its
      // GPUs.
      const bool asks_more =
          r.settings.world() > request.settings.world() || (r.settings.offload && !request.settings.offload);
      return std::tuple(asks_more, known, !r.valid, r.may_run_out_of_memory, shorter,
                        time_of_work(r.settings, r.step_ms) * r.settings.world(), r.settings.world());
    };
    return key(a) < key(b);
  };
  if (out.out_of_memory) {
    std::stable_sort(out.useful.begin(), out.useful.end(), fastest);
    out.larger = leave_out_larger(request.settings, out.useful);
  } else {
    std::stable_sort(out.useful.begin(), out.useful.end(), most_worth);
  }
}

}  // namespace

const Remedy* best_against(const Remedies& remedies, CauseKind cause) {
  const Remedy* best = nullptr;
  const auto options = [](const Remedy& remedy) {
    return std::count(remedy.setting.begin(), remedy.setting.end(), ' ');
  };
  const auto cures = [&](const Remedy& remedy) {
    return std::find(remedy.cures.begin(), remedy.cures.end(), cause) != remedy.cures.end();
  };
  std::int64_t most = 0;
  for (const Remedy& remedy : remedies.useful)
    if (cures(remedy)) most = std::max(most, remedy.saving);
  for (const Remedy& remedy : remedies.useful) {
    if (!cures(remedy)) continue;
    const bool close = remedy.saving >= most - most / 20;
    if (close && (best == nullptr || options(remedy) < options(*best))) best = &remedy;
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
  out.most_reserved = base->most_reserved;
  out.own_not_valid = base->not_valid;
  out.out_of_memory = base->out_of_memory;
  out.retries_each_step = base->retries_each_step;
  out.has_time = base->has_time;
  out.step_ms = base->step_ms;
  out.emulated = base->emulated;
  std::vector<Candidate> list = candidates(request.settings, base->out_of_memory, how.machine.links.gpus);
  if (base->out_of_memory)
    for (Candidate& one : largest_sizes(how, request)) list.push_back(std::move(one));
  out.tried = list.size();
  const std::vector<Outcome> outcomes = simulate_all(how, list, request.threads, request.on_progress);
  const auto own = base->out_of_memory ? simulate_unlimited(how, request.settings) : base;
  FORESHARD_TRY(own);
  sort_out(request, list, outcomes, *own, out);
  for (Remedy& remedy : out.useful)
    if (remedy.pytorch.empty())
      remedy.pytorch = pytorch_text(request.settings, remedy.settings, wrapped_modules(source, remedy.settings));
  return out;
}

}  // namespace foreshard::sim
