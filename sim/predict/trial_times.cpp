#include "sim/predict/trial_times.hpp"

#include <algorithm>
#include <map>

namespace foreshard::sim {
namespace {

/// Of at least one value.
Distribution distribution(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](std::size_t percent) { return values[(values.size() * percent + 99) / 100 - 1]; };
  double sum = 0;
  for (const double value : values) sum += value;
  return {at(50), at(95), sum / static_cast<double>(values.size()), values.front(), values.back()};
}

}  // namespace

TrialTimes trial_times(const std::vector<Trial>& trials, const TrialsRequest& request, std::uint32_t world,
                       double factor) {
  TrialTimes out;
  out.jitter = request.jitter;
  out.seed = request.seed;
  out.world = world;
  std::vector<double> waiting;
  std::map<std::uint32_t, LastRank> last;
  for (const Trial& trial : trials) {
    out.steps_ms.push_back(trial.step.ms() * factor);
    waiting.push_back(trial.waiting.ms() * factor);
    if (trial.last == kNobody) continue;
    LastRank& rank = last[trial.last];
    rank.rank = trial.last;
    ++rank.trials;
    const auto each_ms = [&](Nanoseconds all) { return all.ms() * factor / (world - 1); };
    rank.awaited_ms += each_ms(trial.awaited.all);
    for (std::size_t i = 0; i < kResources; ++i) rank.by[i].awaited_ms += each_ms(trial.awaited.by[i]);
    ++rank.by[static_cast<std::size_t>(trial.awaited.most())].trials;
  }
  out.step_ms = distribution(out.steps_ms);
  out.waiting_ms = distribution(std::move(waiting));
  for (auto& [number, rank] : last) {
    rank.awaited_ms /= rank.trials;
    for (LastRank::Part& part : rank.by) part.awaited_ms /= rank.trials;
    out.last.push_back(rank);
  }
  std::stable_sort(out.last.begin(), out.last.end(),
                   [](const LastRank& a, const LastRank& b) { return a.trials > b.trials; });
  return out;
}

}  // namespace foreshard::sim
