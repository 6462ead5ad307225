#include "sim/predict/throughput.hpp"

#include <algorithm>
#include <cstddef>

#include "core/run/rank_shapes.hpp"

namespace foreshard::sim {

double work_of_step(const Settings& settings) {
  if (!settings.batch) return 0;
  return static_cast<double>(*settings.batch) * settings.seq.value_or(1) * settings.accumulate /
         settings.tensor_parallel;
}

double work_of_shapes(const std::vector<StepShape>& shapes, Settings settings) {
  double sum = 0;
  for (const StepShape& shape : shapes) {
    settings.batch = shape.batch;
    settings.seq = shape.seq;
    sum += work_of_step(settings);
  }
  return shapes.empty() ? 0 : sum / static_cast<double>(shapes.size());
}

std::vector<StepShape> shapes_of_job(const Workload& workload, const Settings& settings) {
  const std::vector<RankShape>& ranks = workload.rank_shapes;
  const std::uint64_t own = std::uint64_t{workload.settings.batch.value_or(0)} * workload.settings.seq.value_or(1);
  const bool longest =
      std::all_of(ranks.begin(), ranks.end(), [&](const RankShape& rank) { return tokens_of(rank) <= own; });
  if (!longest || ranks.size() != settings.world()) return {};
  std::vector<StepShape> out;
  for (const RankShape& rank : ranks) out.push_back({rank.batch, rank.seq});
  return out;
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
