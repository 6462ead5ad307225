// --json of explain: docs/explain.md lists the keys.

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/reports/as_it_is.hpp"
#include "cli/reports/explain_report.hpp"
#include "cli/reports/job_end.hpp"
#include "cli/reports/json_values.hpp"
#include "cli/reports/remedy_json.hpp"
#include "cli/reports/run_answer.hpp"
#include "cli/reports/run_summary.hpp"
#include "cli/reports/stored_pictures.hpp"
#include "cli/reports/straggler_report.hpp"
#include "core/run/block_names.hpp"
#include "core/run/plan_results.hpp"
#include "core/run/run_names.hpp"

namespace foreshard::cli {
namespace {

Json time_or_null(const std::optional<Nanoseconds>& time) {
  return time ? Json(time->count) : Json(nullptr);
}

Json stream_or_null(StreamId stream) {
  return stream.valid() ? Json(stream.value) : Json(nullptr);
}

/// A unit's name; null where a block belongs to none. The root's is "".
Json unit_json(const Run& run, UnitId unit) {
  return unit.value < run.units.size() ? Json(run.units[unit.value].name) : Json(nullptr);
}

void add_parts(Json& json, const MemoryParts& parts) {
  for (const NamedPart& part : named_parts(parts)) json[std::string(part.name) + "_bytes"] = part.bytes;
  json["allocated_bytes"] = parts.allocated();
  json["active_bytes"] = parts.active();
  json["reserved_bytes"] = parts.reserved();
  json["gap_bytes"] = parts.gap();
}

Json point_json(const GapPoint& point) {
  Json json = Json::object();
  json["event"] = point.event;
  json["time_ns"] = point.time.count;
  add_parts(json, point.parts);
  return json;
}

Json block_json(const Run& run, const BlockNames& names, const HeldBlock& block) {
  Json json = Json::object();
  json["block"] = block.block.valid() ? Json(block.block.value) : Json(nullptr);
  json["address"] = fmt::format("{:#x}", block.address);
  json["size_bytes"] = block.size;
  json["requested_bytes"] = block.requested;
  json["category"] = category_name(block.category);
  json["unit"] = unit_json(run, block.unit);
  json["stream"] = stream_or_null(block.stream);
  const BlockRecord* record = block.block.value < run.blocks.size() ? &run.blocks[block.block.value] : nullptr;
  json["of"] = text_or_null(record != nullptr ? names.owner(*record) : std::string());
  json["op"] = text_or_null(record != nullptr ? names.op(*record) : std::string());
  json["frame"] = text_or_null(names.whole_frame(block.stack));
  json["step"] = block.step;
  json["made_ns"] = time_or_null(block.made);
  json["freed_ns"] = time_or_null(block.freed);
  json["back_ns"] = time_or_null(block.back);
  json["waits_for_stream"] = stream_or_null(block.waits_for);
  json["waits_for"] = text_or_null(block.waits_for_name);
  json["behind"] = text_or_null(block.behind);
  json["op_end_ns"] = time_or_null(block.op_end);
  return json;
}

template <class Key>
Json share_json(const Share<Key>& share) {
  Json json = Json::object();
  json["live_bytes"] = share.live;
  json["pending_free_bytes"] = share.pending;
  json["blocks"] = share.blocks;
  json["units"] = share.units;
  return json;
}

Json holdings_json(const std::vector<Holding>& holdings) {
  Json list = Json::array();
  for (const Holding& holding : holdings) {
    Json json = Json::object();
    json["name"] = holding.name;
    if (holding.stream.valid())
      json["stream"] = holding.stream.value;
    else
      json["pool"] = holding.pool.value;
    json["reserved_bytes"] = holding.reserved();
    json["live_bytes"] = holding.live;
    json["pending_free_bytes"] = holding.pending;
    json["free_bytes"] = holding.free;
    json["segments"] = holding.segments;
    list.push_back(std::move(json));
  }
  return list;
}

Json categories_json(const Moment& moment) {
  Json list = Json::array();
  for (const auto& share : moment.categories) {
    Json json = share_json(share);
    json["category"] = category_name(share.key);
    list.push_back(std::move(json));
  }
  return list;
}

Json moment_json(const Run& run, const BlockNames& names, const Moment& moment) {
  Json json = point_json(moment.at);
  json["step"] = moment.step;
  json["phase"] = text_or_null(moment.phase);
  json["largest_free_bytes"] = moment.largest_free;
  json["categories"] = categories_json(moment);
  json["units"] = Json::array();
  for (const auto& share : moment.units) {
    Json entry = share_json(share);
    entry["unit"] = unit_json(run, share.key);
    json["units"].push_back(std::move(entry));
  }
  json["allocated_in_step"] = Json::array();
  for (const auto& share : moment.steps) {
    Json entry = share_json(share);
    entry["step"] = share.key;
    json["allocated_in_step"].push_back(std::move(entry));
  }
  json["streams"] = holdings_json(moment.streams);
  json["pools"] = holdings_json(moment.pools);
  for (const auto& [key, blocks] : {std::pair{"pending", &moment.pending}, std::pair{"largest", &moment.largest}}) {
    json[key] = Json::array();
    for (const HeldBlock& block : *blocks) json[key].push_back(block_json(run, names, block));
  }
  return json;
}

Json periods_json(const std::vector<PeriodParts>& periods) {
  Json list = Json::array();
  for (const PeriodParts& period : periods) {
    Json json = Json::object();
    json["step"] = period.step;
    json["phase"] = text_or_null(period.phase);
    json["start_ns"] = period.start.count;
    json["end_ns"] = period.end.count;
    json["peak_requested_bytes"] = period.peaks.requested;
    json["peak_allocated_bytes"] = period.peaks.allocated;
    json["peak_active_bytes"] = period.peaks.active;
    json["peak_reserved_bytes"] = period.peaks.reserved;
    json["pending_free_peak_bytes"] = period.pending_free_peak;
    json["peak"] = point_json(period.peak);
    list.push_back(std::move(json));
  }
  return list;
}

Json causes_json(const Run& run, const BlockNames& names, const std::vector<Cause>& causes) {
  Json list = Json::array();
  for (const Cause& cause : causes) {
    Json json = Json::object();
    json["cause"] = name(cause.kind);
    json["text"] = cause.text;
    json["bytes"] = cause.bytes;
    json["blocks"] = cause.blocks;
    json["category"] = name(cause.category);
    json["stream"] = stream_or_null(cause.stream);
    json["waits_for_stream"] = stream_or_null(cause.waits_for);
    json["held_mean_ns"] = time_or_null(cause.held_mean);
    json["held_longest_ns"] = time_or_null(cause.held_longest);
    json["advice"] = cause.advice;
    json["example"] = cause.example ? block_json(run, names, *cause.example) : Json(nullptr);
    list.push_back(std::move(json));
  }
  return list;
}

Json failures_json(const Run& run, const BlockNames& names, const std::vector<FailedRequest>& failures) {
  Json list = Json::array();
  for (const FailedRequest& failed : failures) {
    Json json = Json::object();
    json["event"] = failed.event;
    json["time_ns"] = failed.time.count;
    json["step"] = failed.step;
    json["size_bytes"] = failed.size;
    json["segment_bytes"] = failed.segment;
    json["stream"] = stream_or_null(failed.stream);
    json["pool"] = failed.small_pool ? "small" : "large";
    json["device_free_bytes"] = failed.device_free ? Json(*failed.device_free) : Json(nullptr);
    json["op"] = text_or_null(names.op_of(stack_of(run, failed)));
    json["frame"] = text_or_null(names.whole_frame(stack_of(run, failed)));
    json["free_here_bytes"] = failed.free_here;
    json["largest_free_here_bytes"] = failed.largest_here;
    json["free_other_streams_bytes"] = failed.free_elsewhere;
    json["why"] = failed.why;
    json["would_have_fit"] = failed.remedies;
    add_parts(json, failed.parts);
    list.push_back(std::move(json));
  }
  return list;
}

void add_remedies(const ExplainReport& report, Json& json) {
  json["remedies"] = Json::array();
  json["remedies_tried"] = report.remedies ? report.remedies->tried : 0;
  json["remedies_larger"] = report.remedies ? report.remedies->larger : 0;
  json["remedies_missing"] = text_or_null(report.no_remedies);
  if (!report.remedies) return;
  const sim::Remedies& all = *report.remedies;
  json["simulated"] = {{"peak_reserved_bytes", all.before.reserved},
                       {"peak_allocated_bytes", all.before.allocated},
                       {"step_ms", step_ms(all.has_time, all.step_ms)},
                       {"keeps_up", keeps_up_json(report.run)},
                       {"title", as_it_is(report.run)},
                       {"out_of_memory", all.out_of_memory},
                       {"machine", report.machine},
                       {"machine_note", text_or_null(report.machine_note)}};
  for (const sim::Remedy& remedy : all.useful) json["remedies"].push_back(remedy_json(remedy));
  json["impossible"] = all.impossible;
}

}  // namespace

Json explain_json(const ExplainReport& report, std::size_t series) {
  const Explanation& e = report.explanation;
  const BlockNames names(report.run);
  Json json = json_result("explain");
  json["run"] = report.path;
  json["name"] = report.run.info.name;
  json["fingerprint"] = report.fingerprint.empty() ? Json(nullptr) : Json(report.fingerprint);
  json["ends"] = stored_end_json(report.run);
  if (const std::vector<std::string> lines = forecast_lines(report.run); !lines.empty()) json["forecast"] = lines;
  json["left_out"] = not_in_run_lines(report.run);
  json["fit"] = fit_json(fit_of(report));
  json["fit"]["line"] = fit_answer(report);
  if (const std::string experts = plan_text(report.run, "experts", "sentence"); !experts.empty())
    json["experts"] = experts;
  json["headline"] = headline(report);
  json["valid"] = report.run.info.valid;
  json["not_valid"] = result_texts(report.run, "not_valid");
  const sim::Remedy* best = best_remedy(report);
  json["best_remedy"] = best != nullptr ? remedy_json(*best) : Json(nullptr);
  json["step"] = e.step ? Json(*e.step) : Json(nullptr);
  json["step_title"] = explained_step(report.run, e);
  json["first_event"] = e.first_event;
  json["end_event"] = e.end_event;
  json["odd_events"] = e.odd_events;
  json["pending_free_peak_bytes"] = e.pending_free_peak;
  json["requested_peak_bytes"] = e.peaks.requested;
  json["allocated_peak_bytes"] = e.peaks.allocated;
  json["active_peak_bytes"] = e.peaks.active;
  json["reserved_peak_bytes"] = e.peaks.reserved;
  json["gap_peak_bytes"] = e.gap_peak;
  const Moment& shown = e.asked ? *e.asked : e.reserved_peak;
  json["gap"] = point_json(shown.at);
  json["categories"] = categories_json(shown);
  json["causes"] = causes_json(report.run, names, e.causes);
  add_remedies(report, json);
  json["failures"] = failures_json(report.run, names, e.failures);
  json["moments"] = {{"reserved_peak", moment_json(report.run, names, e.reserved_peak)},
                     {"allocated_peak", moment_json(report.run, names, e.allocated_peak)},
                     {"pending_free_peak", moment_json(report.run, names, e.pending_peak)}};
  if (e.asked) json["moments"]["asked"] = moment_json(report.run, names, *e.asked);
  const PeriodParts* larger = larger_step(e);
  json["larger_step"] = larger != nullptr ? Json(larger->step) : Json(nullptr);
  json["steps"] = periods_json(e.steps);
  json["phases"] = periods_json(e.phases);
  json["ranks"] = report.stragglers ? stragglers_json(*report.stragglers) : Json(nullptr);
  json["series"] = Json::array();
  for (const GapPoint& point : downsample(e.series, series)) json["series"].push_back(point_json(point));
  return json;
}

}  // namespace foreshard::cli
