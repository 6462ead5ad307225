#include "sim/sweep/outcome.hpp"

#include <utility>

#include "sim/parallel/for_each.hpp"
#include "sim/sweep/offloaded.hpp"

namespace foreshard::sim {

Result<std::optional<HostScale>> common_host_scale(WorkloadSource& source, const MachineProfile& machine,
                                                   const Settings& settings) {
  if (!source.one_for_all()) return std::nullopt;
  if (auto known = source.host_scale()) return known;
  const auto workload = source.at(settings);
  FORESHARD_TRY(workload);
  const auto found = find_host_scale(**workload, machine);
  FORESHARD_TRY(found);
  return *found;
}

Result<Outcome> simulate_settings(const Simulated& how, const Settings& settings) {
  const auto workload = how.source.at(settings);
  FORESHARD_TRY(workload);
  PredictRequest request{settings, how.memory_limit};
  request.host_scale = how.host_scale;
  request.ops_alone = true;
  const auto p = predict(**workload, how.machine, request);
  FORESHARD_TRY(p);
  Outcome out{largest_peaks(*p),
              p->has_time,
              lasting_step_ms(*p),
              p->exposed_communication_ms,
              p->host_bound,
              p->interval.half_width(p->step_ms),
              p->difference,
              p->valid,
              p->not_valid,
              p->emulated,
              p->out_of_memory.has_value() || runs_out_later(*p),
              keeps_retrying(*p),
              p->may_run_out_of_memory,
              p->warnings,
              {},
              p->time_unknown,
              0,
              most_reserved(*p)};
  if (settings.offload) out.offloaded = offloaded_bytes(**workload, settings);
  if (p->deadlock) out.reason = "deadlock: " + p->deadlock->text;
  return out;
}

std::vector<Outcome> simulate_all(const Simulated& how, const std::vector<Candidate>& list, unsigned threads,
                                  const std::function<void(std::size_t, std::size_t)>& on_progress) {
  std::vector<Outcome> outcomes(list.size());
  for_each(
      list.size(), threads,
      [&](std::size_t i) {
        auto outcome = simulate_settings(how, list[i].settings);
        if (outcome)
          outcomes[i] = std::move(*outcome);
        else
          outcomes[i].reason = outcome.error().what;
      },
      [&](std::size_t done) {
        if (on_progress) on_progress(done, list.size());
      });
  return outcomes;
}

}  // namespace foreshard::sim
