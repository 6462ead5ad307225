#include "cli/reports/job_end.hpp"

#include <nlohmann/json.hpp>

#include "cli/reports/flapping_report.hpp"
#include "cli/reports/hang_report.hpp"
#include "cli/reports/json_values.hpp"
#include "core/run/plan_results.hpp"

namespace foreshard::cli {

std::vector<std::string> end_lines(const sim::Prediction& p) {
  if (p.hang) return hang_lines(*p.hang);
  if (p.deadlock) return {"deadlocks"};
  return p.link_ends_job() ? link_end_lines(p) : std::vector<std::string>{};
}

Json end_json(const sim::Prediction& p) {
  return texts_or_null(end_lines(p));
}

Json stored_end_json(const Run& run) {
  return texts_or_null(plan_end(run));
}

}  // namespace foreshard::cli
