#include "cli/reports/beside_report.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/json_io.hpp"

namespace foreshard::cli {
namespace {

std::string job_words(const sim::BesideTimes& beside) {
  return fmt::format("{} on {} node{}{}", beside.name, beside.nodes, beside.nodes == 1 ? "" : "s",
                     beside.replicate > 1 ? fmt::format(" (HSDP of {})", beside.replicate) : "");
}

double percent(double ms, double step_ms) {
  return step_ms > 0 ? 100 * (ms - step_ms) / step_ms : 0;
}

/// Of a step: the steps behind the steady one differ from it by less where groups of the job itself meet (llama-1b on
/// fat-tree:3:4: 0.06 %), so that no less is another job's.
constexpr double kSameStep = 0.001;

bool is_same(const sim::BesideTimes& beside, double step_ms) {
  return std::abs(beside.median_ms - step_ms) < kSameStep * step_ms;
}

}  // namespace

std::string beside_line(const sim::BesideTimes& beside, double step_ms) {
  const std::string job = job_words(beside);
  if (!beside.meets)
    return fmt::format("beside {} the step is the same: no link behind the adapters that the two share can fill", job);
  if (is_same(beside, step_ms))
    return fmt::format("beside {}, whose step takes {:.2f} ms alone, the step is the same within {:.1f} %", job,
                       beside.other_step_ms, 100 * kSameStep);
  return fmt::format(
      "beside {}, whose step takes {:.2f} ms alone, the step takes {:.2f} ms ({:+.1f} %), {:.2f} to {:.2f} ms as the "
      "two jobs' steps fall together",
      job, beside.other_step_ms, beside.median_ms, percent(beside.median_ms, step_ms), beside.least_ms, beside.most_ms);
}

Json beside_json(const sim::BesideTimes& beside, double step_ms) {
  Json json = {{"name", beside.name},
               {"nodes", beside.nodes},
               {"replicate", beside.replicate},
               {"alone_ms", beside.other_step_ms},
               {"meets", beside.meets}};
  json["step_ms"] = Json(nullptr);
  if (beside.meets) json["step_ms"] = {{"median", beside.median_ms}, {"min", beside.least_ms}, {"max", beside.most_ms}};
  json["steps_ms"] = beside.steps_ms;
  json["costs_ms"] = beside.meets && !is_same(beside, step_ms) ? beside.median_ms - step_ms : 0.0;
  json["sentence"] = beside_line(beside, step_ms);
  return json;
}

Json stored_beside(const Run& run) {
  const auto kept = run.results.find("beside");
  return kept == run.results.end() ? Json(nullptr) : parse_ordered_json_text(kept->second);
}

}  // namespace foreshard::cli
