#include "sim/predict/throughput.hpp"

namespace foreshard::sim {

double work_of_step(const Settings& settings) {
  if (!settings.batch) return 0;
  return static_cast<double>(*settings.batch) * settings.seq.value_or(1) * settings.accumulate /
         settings.tensor_parallel;
}

double work_per_second(const Settings& settings, double step_ms) {
  return step_ms > 0 ? work_of_step(settings) / (step_ms / 1e3) : 0;
}

}  // namespace foreshard::sim
