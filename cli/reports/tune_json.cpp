// tune's --json, which `-o` keeps in the store.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/reports/json_values.hpp"
#include "cli/reports/prediction_report.hpp"
#include "cli/reports/sweep_report.hpp"
#include "cli/reports/tune_reason.hpp"
#include "cli/reports/tune_report.hpp"
#include "core/base/json_io.hpp"
#include "core/settings/settings_table.hpp"

namespace foreshard::cli {
namespace {

using sim::SweepPoint;
using sim::TunedPoint;

bool has_step(const SweepPoint& point) {
  return point.state == SweepPoint::State::ran && point.has_time;
}

/// A point that the answer names: with all that a plan of it says of time and memory.
Json point_json(const TuneReport& report, const TunedPoint& tuned) {
  const SweepPoint& point = tuned.point;
  const auto floor = [&](double value) { return has_step(point) ? Json(value) : Json(nullptr); };
  Json json;
  json["state"] = name(point.state);
  json["changes"] = changes_of(report, tuned);
  json["phrase"] = tuned.phrase;
  json["command"] = plan_command(report, tuned);
  json["reason"] = point.reason.empty() ? Json(nullptr) : Json(point.reason);
  if (tuned.plan) {
    add_times(*tuned.plan, json);
    json["floor_ms"] = {{"compute", floor(point.floor.compute_ms)},
                        {"links", floor(point.floor.links_ms)},
                        {"host", floor(point.floor.host_ms)}};
    add_memory(*tuned.plan, json);
    json["peak_requested_bytes"] = point.peaks.requested;  // of several recorded steps the largest one's
    json["peak_allocated_bytes"] = point.peaks.allocated;
    json["peak_active_bytes"] = point.peaks.active;
    json["peak_reserved_bytes"] = point.peaks.reserved;
  }
  json["valid"] = point.valid;
  json["not_valid"] = point.not_valid;
  json["warnings"] = point.warnings;
  json["settings"] = Json::object();
  for (const auto& [key, value] : setting_options(point.settings))
    json["settings"][key] = parse_ordered_json_text(value);
  return json;
}

Json optional_json(const TuneReport& report, const std::optional<TunedPoint>& point) {
  return point ? point_json(report, *point) : Json(nullptr);
}

/// Every point that was tried, with what the search looks at.
Json points_json(const TuneReport& report) {
  const sim::TuneResult& result = report.result;
  const auto holds = [](const std::vector<std::size_t>& list, std::size_t i) {
    return std::find(list.begin(), list.end(), i) != list.end();
  };
  Json list = Json::array();
  for (std::size_t i = 0; i < result.points.size(); ++i) {
    const TunedPoint& tuned = result.points[i];
    const SweepPoint& point = tuned.point;
    const bool ran = point.state == SweepPoint::State::ran;
    list.push_back({{"state", name(point.state)},
                    {"changes", changes_of(report, tuned)},
                    {"phrase", tuned.phrase},
                    {"step_ms", has_step(point) ? Json(point.step_ms) : Json(nullptr)},
                    {"peak_allocated_bytes", ran ? Json(point.peaks.allocated) : Json(nullptr)},
                    {"peak_reserved_bytes", ran ? Json(point.peaks.reserved) : Json(nullptr)},
                    {"fits", name(fits(point))},
                    {"leaves_headroom", ran && point.most_reserved <= result.most_reserved},
                    {"takes_part", ran && !holds(result.no_part, i)},
                    {"on_front", holds(result.front, i)},
                    {"reason", point.reason.empty() ? Json(nullptr) : Json(point.reason)}});
  }
  return list;
}

Json gain_json(const sim::TuneResult& result) {
  const auto gain = gain_of(result);
  if (!gain) return nullptr;
  return {{"ms", gain->ms},
          {"within_ms", gain->within_ms},
          {"percent", gain->percent},
          {"within_percent", gain->within_percent},
          {"interval",
           {{"share", sim::kIntervalShare},
            {"low_ms", gain->ms - gain->within_ms},
            {"high_ms", gain->ms + gain->within_ms}}}};
}

/// Of what nothing fits: TuneResult::least.
Json least_json(const TuneReport& report) {
  if (!report.result.least) return nullptr;
  const sim::PlannedPoint& least = *report.result.least;
  Json memory = Json::object();
  if (const auto table = least.plan ? memory_table(*least.plan) : std::nullopt)
    for (const PlanMemory::Row& row : table->rows) memory[row.what] = row.bytes;
  return {{"changes", changes_of_least(report)},
          {"peak_reserved_bytes", least.point.most_reserved},
          {"short_bytes", short_of_least(report)},
          {"time_known", least.point.has_time},
          {"memory", std::move(memory)}};
}

Json searched_json(const TuneReport& report) {
  const sim::TuneResult& result = report.result;
  Json refused = Json::array();
  for (const auto& [reason, points] : result.refused) refused.push_back({{"reason", reason}, {"points", points}});
  constexpr std::string_view kEnds[] = {"nothing_helps", "points", "time"};
  return {{"points", result.tried},
          {"out_of_memory", result.out_of_memory},
          {"less_sure", result.doubted},
          {"pruned", result.pruned},
          {"refused", std::move(refused)},
          {"ended_by", report.interrupted ? "interrupted" : kEnds[static_cast<std::size_t>(result.end)]}};
}

}  // namespace

Json tune_json(const TuneReport& report) {
  const sim::TuneResult& result = report.result;
  Json json = json_result("tune");
  json["source"] = report.source;
  json["name"] = report.name;
  json["model_options"] = text_or_null(report.model_options);
  json["left_out"] = report.left_out;
  json["machine"] = report.machine;
  json["memory_limit_bytes"] = report.request.memory_limit ? Json(*report.request.memory_limit) : Json(nullptr);
  json["memory_capacity_bytes"] = result.most_reserved + report.request.headroom;
  json["headroom_bytes"] = report.request.headroom;
  json["moves"] = Json::array();
  for (const sim::MoveFamily family : kEnumValues<sim::MoveFamily>)
    if (report.request.allowed.has(family)) json["moves"].push_back(foreshard::name(family));
  json["reason"] = text_or_null(reason_of(report));
  json["least_memory"] = least_json(report);
  json["start"] = point_json(report, result.start);
  json["best"] = optional_json(report, result.best);
  json["fastest"] = optional_json(report, result.fastest);
  json["gain"] = gain_json(result);
  json["changes"] = Json::array();
  for (const sim::ChangeWorth& one : result.changes)
    json["changes"].push_back({{"setting", one.setting},
                               {"ms", one.ms ? Json(*one.ms) : Json(nullptr)},
                               {"peak_reserved_bytes", one.ms ? Json(one.reserved) : Json(nullptr)}});
  json["changes_not_tried"] = result.changes_not_tried;
  json["bound_ms"] = result.bound_ms > 0 && result.tried > 1 ? Json(result.bound_ms) : Json(nullptr);
  json["why_not_faster"] = result.waits.headline;
  json["uniform"] = optional_json(report, result.uniform);
  json["depth"] = optional_json(report, result.greedy);
  json["next"] = Json::array();
  for (const TunedPoint& point : result.next) json["next"].push_back(point_json(report, point));
  json["fastest_retrying"] = optional_json(report, result.fastest_retrying);
  json["fastest_less_sure"] = optional_json(report, result.fastest_doubted);
  json["with_cuda_graph"] = optional_json(report, result.with_cuda_graph);
  json["searched"] = searched_json(report);
  json["points"] = points_json(report);
  json["pytorch"] = nullptr;
  if (result.best) json["pytorch"] = {{"environment", report.code.environment}, {"lines", report.code.lines}};
  json["fabric"] = report.fabric.empty() ? Json(nullptr) : Json(report.fabric);
  json["topology"] = topology_json(report.topology);
  json["fingerprint"] = report.fingerprint.empty() ? Json(nullptr) : Json(report.fingerprint);
  return json;
}

}  // namespace foreshard::cli
