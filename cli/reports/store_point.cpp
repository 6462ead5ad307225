#include "cli/reports/store_point.hpp"

#include <nlohmann/json.hpp>

#include "cli/reports/prediction_report.hpp"
#include "cli/reports/store_run.hpp"
#include "sim/parallel/for_each.hpp"
#include "sim/predict/predict.hpp"

namespace foreshard::cli {

Result<void> store_point(const sim::SweepPoint& point, const PointOutput& output, const sim::MachineProfile& machine,
                         sim::WorkloadSource& workloads) {
  const auto workload = workloads.at(point.settings);
  FORESHARD_TRY(workload);
  sim::PredictRequest request{point.settings, output.memory_limit};
  request.differences = output.differences;
  request.threads = sim::hardware_threads();
  auto p = sim::predict(**workload, machine, request);
  FORESHARD_TRY(p);
  if (!output.name.empty()) p->run.info.name = output.name;
  p->valid = p->run.info.valid = point.valid;
  p->not_valid = point.not_valid;
  p->warnings = p->run.info.warnings = point.warnings;
  Json json = prediction_json(output.source, output.basis, **workload, *p);
  for (const auto& [key, kept] : output.results) json[key] = kept;
  return store_run(json, **workload, output.path, output.force, p->run);
}

}  // namespace foreshard::cli
