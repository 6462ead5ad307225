#include "cli/reports/job_end.hpp"

#include <nlohmann/json.hpp>

#include "cli/reports/flapping_report.hpp"
#include "cli/reports/hang_report.hpp"
#include "core/base/json_io.hpp"

namespace foreshard::cli {
namespace {

Json or_null(const std::vector<std::string>& lines) {
  return lines.empty() ? Json(nullptr) : Json(lines);
}

}  // namespace

std::vector<std::string> end_lines(const sim::Prediction& p) {
  if (p.hang) return hang_lines(*p.hang);
  if (p.deadlock) return {"deadlocks"};
  return p.link_ends_job() ? link_end_lines(p) : std::vector<std::string>{};
}

Json end_json(const sim::Prediction& p) {
  return or_null(end_lines(p));
}

std::vector<std::string> stored_end(const Run& run) {
  std::vector<std::string> out;
  const auto kept = run.results.find("ends");
  if (kept == run.results.end()) return out;
  const Json lines = parse_ordered_json_text(kept->second);
  if (!lines.is_array()) return out;
  for (const Json& line : lines)
    if (line.is_string()) out.push_back(line.get<std::string>());
  return out;
}

Json stored_end_json(const Run& run) {
  return or_null(stored_end(run));
}

}  // namespace foreshard::cli
