#include "sim/predict/memory_doubts.hpp"

#include "core/workload/time_estimates.hpp"
#include "sim/predict/confidence.hpp"

namespace foreshard::sim {

std::vector<std::string> memory_doubts(const Workload& workload, const Settings& settings) {
  Prediction p;
  judge_version(workload, settings, p);
  for (const std::string& why : workload.estimates)
    if (!is_of_time_alone(why)) estimate(why, p);
  return std::move(p.not_valid);
}

}  // namespace foreshard::sim
