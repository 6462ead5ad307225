#include "cli/verbs/compare_pair.hpp"

#include <fmt/format.h>

#include <array>

#include "cli/reports/fingerprint.hpp"
#include "cli/verbs/explain_remedies.hpp"
#include "cli/verbs/like_steps.hpp"
#include "core/compare/compare.hpp"
#include "core/compare/model_difference.hpp"
#include "core/compare/replayed_phases.hpp"
#include "core/run/plan_results.hpp"
#include "sim/predict/interval.hpp"
#include "traces/workload_file/workload_file.hpp"

namespace foreshard::cli {
namespace {

/// The step time that the budget explains: what the table shows, unless that is host time under a profiler.
std::optional<Nanoseconds> reported(const RunSummary& summary) {
  if (!summary.step_ms || summary.step_ms_source == "profiled") return std::nullopt;
  return Nanoseconds::from_double(*summary.step_ms * 1e6);
}

void take_step_time(const ComparedSide& side, RunSummary& summary) {
  if (summary.step_ms || !side.time) return;
  summary.step_ms = (side.time->end - side.time->begin).ms();
  summary.step_ms_source = "timeline";
}

/// The recording of the two, where the other is a plan.
struct RecordedSide {
  const Run& recording;
  const Run& plan;
  const std::string& path;  ///< of the recording
  bool is_a;
};

/// The workload that the plan was made from, where that is the recording's; else why the recording's own plan says
/// nothing of this one.
Result<Workload> common_workload(const RecordedSide& side) {
  const char* const recording = side.is_a ? "A" : "B";
  if (side.recording.workload_json.empty())
    return fail(ErrorKind::input, fmt::format("{}'s store holds no workload (import says why)", recording));
  const std::string where = side.path + " (workload)";
  auto own = traces::stored_workload(side.recording.workload_json, false, where);
  if (!own || side.plan.workload_json == side.recording.workload_json) return own;
  const auto planned = traces::stored_workload(side.plan.workload_json, false, where);
  if (!planned || traces::to_json(*planned) != traces::to_json(*own))
    return fail(ErrorKind::input, fmt::format("{} was not planned from {}", side.is_a ? "B" : "A", recording));
  return own;
}

/// The recording's plan at its own settings; else why there is none.
Result<sim::Prediction> own_plan(const RecordedSide& side, const ComparedSteps& steps, const CompareReport& report) {
  if (!report.different_models.empty()) return fail(ErrorKind::input, "the models differ");
  if (!side.plan.ranks.empty()) return fail(ErrorKind::input, "the plan's ranks differ (--slow-gpu and the like)");
  if (steps.a || steps.b) return fail(ErrorKind::input, "steps were asked for, and it is known of the usual ones");
  if (report.work.steps_differ) return fail(ErrorKind::input, "recorded steps differ");
  if (const auto failure = plan_failure(side.plan); !failure.empty())
    return fail(ErrorKind::input, fmt::format("the plan {}", failure));
  const auto workload = common_workload(side);
  FORESHARD_TRY(workload);
  auto planned = plan_where_recorded(*workload, {}, side.recording);
  if (planned && !planned->recorded_on.empty())
    return fail(ErrorKind::input, "there is no profile of " + planned->recorded_on);
  if (planned && !planned->has_time) return fail(ErrorKind::input, "the workload has no times");
  return planned;
}

/// Sets what the report says of the model's bias, and the request's plan of the recording, which `own` keeps.
void add_model(const RecordedSide& side, const ComparedSteps& steps, std::optional<sim::Prediction>& own,
               CompareRequest& request, CompareReport& report) {
  auto planned = own_plan(side, steps, report);
  if (!planned) {
    report.model_unknown = planned.error().what;
    return;
  }
  const double capacity = result_number(side.plan, "memory_capacity_bytes").value_or(0);
  if (side.recording.settings == side.plan.settings && planned->run.info.machine == side.plan.info.machine &&
      static_cast<double>(planned->memory_capacity) == capacity) {
    report.is_own_plan = true;
    return;
  }
  own = std::move(*planned);
  (side.is_a ? request.model_a : request.model_b) = &own->run;
  request.reported_model = Nanoseconds::from_double(own->step_ms * 1e6);
  report.model = summarise(own->run, side.path);
  report.model->step_ms = own->step_ms;
  report.model_of_a = side.is_a;
}

/// CompareReport::within. A recording's plans have its workload, a model's are made at their settings.
std::optional<double> within_of(const Run& a, const Run& b, const CompareReport& report) {
  const auto difference_a = result_number(a, "difference"), difference_b = result_number(b, "difference");
  const bool planned = a.info.kind == RunKind::planned && b.info.kind == RunKind::planned;
  const bool hosts = plan_text(a, "host_confidence") == plan_text(b, "host_confidence");
  if (!planned || !difference_a || !difference_b || !hosts) return std::nullopt;
  if (!report.different_models.empty() || a.info.machine != b.info.machine) return std::nullopt;
  const bool recorded = plan_text(a, "host_confidence").starts_with("recorded");
  if (recorded && a.workload_json != b.workload_json) return std::nullopt;
  return sim::difference_within(*difference_a, *difference_b);
}

}  // namespace

Result<CompareReport> compare_pair(const Run& a, const std::string& a_path, const Run& b, const std::string& b_path,
                                   const ComparedSteps& steps) {
  CompareReport report;
  const auto a_replayed = as_replayed(a, steps.a, b, steps.b);
  const auto b_replayed = as_replayed(b, steps.b, a, steps.a);
  const std::array<const Run*, 2> runs{a_replayed ? &*a_replayed : &a, b_replayed ? &*b_replayed : &b};
  const std::array<const std::string*, 2> paths{&a_path, &b_path};
  const std::array<RunSummary*, 2> summaries{&report.a, &report.b};
  const LikeSteps like = like_steps(*runs[0], *runs[1], steps);
  for (std::size_t i = 0; i < 2; ++i) {
    *summaries[i] =
        summarise(*runs[i], *paths[i], i == 0 ? like.time_a : like.time_b, i == 0 ? like.memory_a : like.memory_b);
    summaries[i]->fingerprint = fingerprint_of(i == 0 ? a : b);
  }
  report.different_models = model_difference(a, b);
  report.within = within_of(a, b, report);
  if (report.hangs()) return report;
  report.work = compared_work(*runs[0], *runs[1], steps, like);
  CompareRequest request{like.time_a,   like.time_b,        like.memory_a,
                         like.memory_b, reported(report.a), reported(report.b)};
  std::optional<sim::Prediction> own;
  if (a.info.kind == RunKind::imported && b.info.kind == RunKind::planned)
    add_model({a, b, a_path, true}, steps, own, request, report);
  if (a.info.kind == RunKind::planned && b.info.kind == RunKind::imported)
    add_model({b, a, b_path, false}, steps, own, request, report);
  auto comparison = compare_runs(*runs[0], *runs[1], request);
  FORESHARD_TRY(comparison);
  report.comparison = std::move(*comparison);
  take_step_time(report.comparison.a, report.a);
  take_step_time(report.comparison.b, report.b);
  return report;
}

}  // namespace foreshard::cli
