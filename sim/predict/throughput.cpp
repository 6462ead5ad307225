#include "sim/predict/throughput.hpp"

#include <algorithm>
#include <cstddef>

namespace foreshard::sim {

double work_of_step(const Settings& settings) {
  if (!settings.batch) return 0;
  return static_cast<double>(*settings.batch) * settings.seq.value_or(1) * settings.accumulate /
         settings.tensor_parallel;
}

double work_of_steps(const Workload& workload, const Settings& settings, std::size_t cycle) {
  const std::size_t count = std::min(cycle, workload.recorded.size());
  if (count == 0) return work_of_step(settings);
  Settings step = settings;
  double work = 0;
  for (auto it = workload.recorded.end() - static_cast<std::ptrdiff_t>(count); it != workload.recorded.end(); ++it) {
    if (it->batch == 0 || it->seq == 0) return 0;
    step.batch = it->batch;
    step.seq = it->seq;
    work += work_of_step(step);
  }
  return work / static_cast<double>(count);
}

double work_per_second(double work, double step_ms) {
  return step_ms > 0 ? work / (step_ms / 1e3) : 0;
}

double work_per_second(const Settings& settings, double step_ms) {
  return work_per_second(work_of_step(settings), step_ms);
}

}  // namespace foreshard::sim
