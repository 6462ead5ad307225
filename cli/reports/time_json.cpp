// The JSON of explain --time.

#include <nlohmann/json.hpp>

#include "cli/reports/as_it_is.hpp"
#include "cli/reports/beside_report.hpp"
#include "cli/reports/flapping_report.hpp"
#include "cli/reports/job_end.hpp"
#include "cli/reports/json_values.hpp"
#include "cli/reports/run_summary.hpp"
#include "cli/reports/straggler_report.hpp"
#include "cli/reports/time_answer.hpp"
#include "cli/reports/time_report.hpp"
#include "core/explain_time/phase_times.hpp"
#include "core/explain_time/time_words.hpp"
#include "core/run/plan_results.hpp"
#include "core/run/step_title.hpp"

namespace foreshard::cli {
namespace {

Json op_or_null(std::size_t op) {
  return op == kNoDeviceOp ? Json(nullptr) : Json(op);
}

Json causes_json(const TimeExplanation& e) {
  Json causes = Json::array();
  const CauseTotals totals = cause_totals(e);
  for (const IdleCause cause : kEnumValues<IdleCause>) {
    const CauseTotal& total = totals[static_cast<std::size_t>(cause)];
    if (total.parts == 0) continue;
    causes.push_back({{"cause", name(cause)},
                      {"title", title(cause)},
                      {"time_ns", total.time.count},
                      {"exposed_ns", total.exposed.count},
                      {"parts", total.parts},
                      {"longest", total.longest}});
  }
  return causes;
}

Json gaps_json(const Run& run, const TimeExplanation& e) {
  Json gaps = Json::array();
  for (const IdleGap& gap : e.gaps)
    gaps.push_back({{"start_ns", gap.start.count},
                    {"end_ns", gap.end.count},
                    {"phase", text_or_null(gap.phase)},
                    {"next", op_or_null(gap.next)},
                    {"before", next_words(run, gap)},
                    {"first_part", gap.first_part},
                    {"parts", gap.parts}});
  return gaps;
}

Json path_json(const TimeReport& report) {
  Json path = Json::array();
  for (const PathRow& row : report.critical_path) {
    Json pattern = Json::array();
    for (const PathStretch& stretch : row.pattern)
      pattern.push_back({{"computes", stretch.computes},
                         {"cause", stretch.computes ? Json(nullptr) : Json(name(stretch.cause))},
                         {"phase", text_or_null(stretch.phase)},
                         {"unit", text_or_null(stretch.unit)},
                         {"last_unit", text_or_null(stretch.last_unit)},
                         {"start_ns", stretch.start.count},
                         {"time_ns", stretch.time.count},
                         {"idle_ns", stretch.idle.count},
                         {"part", op_or_null(stretch.part)}});
    path.push_back({{"count", row.count}, {"pattern", std::move(pattern)}});
  }
  return path;
}

Json remedies_json(const TimeReport& report, const std::vector<sim::TimeRemedy>& remedies) {
  Json out = Json::array();
  for (const sim::TimeRemedy& r : remedies)
    out.push_back({{"setting", r.setting},
                   {"pytorch", r.pytorch},
                   {"reason", r.reason},
                   {"command", text_or_null(plan_command(report, r))},
                   {"changes", r.changes},
                   {"step_ms", r.step_ms},
                   {"saved_ms", r.saved_ms},
                   {"saved_ms_interval", {r.saved_ms - r.saved_within, r.saved_ms + r.saved_within}},
                   {"exposed_communication_ms", r.exposed_communication_ms},
                   {"peak_reserved_bytes", r.peaks.reserved},
                   {"more_reserved_bytes", r.more_reserved},
                   {"not_valid", r.not_valid},
                   {"warnings", r.warnings}});
  return out;
}

/// Where a step's time goes, as the report's table has it.
Json step_json(const Run& run, const TimeExplanation& time) {
  const PhaseTime sum = total(phase_times(run, time));
  return {{"step_ns", time.length().count},
          {"compute_ns", sum.compute.count},
          {"exposed_communication_ns", sum.exposed_communication.count},
          {"host_ns", sum.host.count},
          {"other_ns", sum.other.count},
          {"causes", causes_json(time)}};
}

/// The step that the first line answers of: the plan of the one without the profiler, where that slowed the recorded
/// one, else the one that is shown.
Json answer_json(const TimeReport& report) {
  Json json = {{"of", report.clean ? "without_profiler" : "timeline"}};
  if (!report.clean || report.clean->time) {
    json.update(step_json(diagnosed_run(report), diagnosed_time(report)));
    return json;
  }
  json["step_ns"] = Nanoseconds::from_double(report.clean->ms * 1e6).count;
  for (const char* unknown : {"compute_ns", "exposed_communication_ns", "host_ns", "other_ns", "causes"})
    json[unknown] = nullptr;
  return json;
}

Json clean_json(const TimeReport& report) {
  if (!report.clean) return nullptr;
  const CleanStep& clean = *report.clean;
  Json json = {{"step_ms", clean.ms}, {"times", report.time.length().ms() / clean.ms}, {"planned", nullptr}};
  if (!clean.time) return json;
  json["planned"] = {{"headline", time_headline(clean.run, *clean.time)}};
  json["planned"].update(step_json(clean.run, *clean.time));
  return json;
}

void add_remedies_json(const TimeReport& report, Json& json) {
  json["remedies_missing"] = report.remedies ? Json(nullptr) : text_or_null(report.no_remedies);
  json["not_simulated"] = not_simulated(report);
  json["machine"] = text_or_null(report.machine);
  json["machine_note"] = text_or_null(report.machine_note);
  if (!report.remedies) {
    json["remedies"] = nullptr;
    return;
  }
  const sim::TimeRemedies& all = *report.remedies;
  json["remedies"] = {{"tried", all.tried},
                      {"step_ms", all.step_ms},
                      {"keeps_up", keeps_up_json(report.run)},
                      {"title", as_it_is(report.run)},
                      {"exposed_communication_ms", all.exposed_communication_ms},
                      {"peak_reserved_bytes", all.before.reserved},
                      {"same_part", all.same},
                      {"own_not_valid", all.own_not_valid},
                      {"faster", remedies_json(report, all.faster)},
                      {"not_valid", remedies_json(report, all.not_valid)},
                      {"no_difference", remedies_json(report, all.no_difference)},
                      {"slower", remedies_json(report, all.slower)},
                      {"impossible", all.impossible},
                      {"not_timed", all.not_timed},
                      {"not_split", text_or_null(all.not_split)}};
}

}  // namespace

Json parts_json(const Run& run, const TimeExplanation& time) {
  Json parts = Json::array();
  for (const IdlePart& part : time.parts)
    parts.push_back({{"start_ns", part.start.count},
                     {"end_ns", part.end.count},
                     {"cause", name(part.cause)},
                     {"phase", text_or_null(part.phase)},
                     {"unit", text_or_null(part.unit)},
                     {"op", op_or_null(part.op)},
                     {"behind", op_or_null(part.behind)},
                     {"host", text_or_null(run.labels.text(part.host))},
                     {"rank", part.rank ? Json(*part.rank) : Json(nullptr)},
                     {"text", chain_words(run, part)}});
  return parts;
}

Json time_json(const TimeReport& report) {
  const TimeExplanation& e = report.time;
  Json json = json_result("explain");
  json["run"] = report.path;
  json["name"] = report.run.info.name;
  json["ends"] = stored_end_json(report.run);
  json["headline"] = answer_text(report);
  json["valid"] = report.run.info.valid;
  json["not_valid"] = result_texts(report.run, "not_valid");
  if (const std::string ranks = plan_text(report.run, "ranks", "sentence"); !ranks.empty())
    json["ranks_that_differ"] = ranks;
  if (const std::string experts = plan_text(report.run, "experts", "sentence"); !experts.empty())
    json["experts"] = experts;
  json["left_out"] = not_in_run_lines(report.run);
  if (const std::string trials = plan_text(report.run, "trials", "sentence"); !trials.empty()) json["trials"] = trials;
  if (Json flapping = stored_flapping(report.run); flapping.is_object()) json["flapping"] = std::move(flapping);
  if (Json beside = stored_beside(report.run); beside.is_object()) json["beside"] = std::move(beside);
  json["answered_step"] = answer_json(report);
  json["step"] = e.step;
  json["step_title"] = step_title(report.run, e.recording, e.step);
  json["begin_ns"] = e.begin.count;
  json["end_ns"] = e.end.count;
  json["step_ns"] = e.length().count;
  json["compute_ns"] = e.compute.count;
  json["idle_ns"] = e.idle().count;
  json["communication_ns"] = e.communication.count;
  json["exposed_communication_ns"] = e.exposed_communication.count;
  const PhaseTime sum = total(phase_times(report.run, e));
  json["host_ns"] = sum.host.count;
  json["other_ns"] = sum.other.count;
  json["kernel_contention_ns"] = e.kernel_contention.count;
  json["kernel_contention_unknown_ns"] = e.kernel_contention_unknown.count;
  json["contention_unknown_ns"] = e.contention_unknown.count;
  json["step_ms"] = report.reported ? Json(report.reported->ms) : Json(nullptr);
  json["step_ms_source"] = report.reported ? Json(report.reported->source) : Json(nullptr);
  json["ranks"] = report.stragglers ? stragglers_json(*report.stragglers) : Json(nullptr);
  json["rank_path"] = report.rank_path ? rank_path_json(*report.rank_path) : Json(nullptr);
  json["causes"] = causes_json(e);
  json["gaps"] = gaps_json(report.run, e);
  json["parts"] = parts_json(report.run, e);
  json["critical_path"] = path_json(report);
  json["links"] = report.links ? links_json(*report.links, diagnosed_time(report), false) : Json(nullptr);
  json["roofline"] = report.roofline ? roofline_json(*report.roofline) : Json(nullptr);
  json["without_profiler"] = clean_json(report);
  add_remedies_json(report, json);
  json["fingerprint"] = text_or_null(report.fingerprint);
  return json;
}

}  // namespace foreshard::cli
