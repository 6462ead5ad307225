#include "cli/reports/prediction_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/reports/beside_report.hpp"
#include "cli/reports/fingerprint.hpp"
#include "cli/reports/flapping_report.hpp"
#include "cli/reports/hang_report.hpp"
#include "cli/reports/job_end.hpp"
#include "cli/reports/json_values.hpp"
#include "cli/reports/plan_answer.hpp"
#include "cli/reports/plan_tables.hpp"
#include "cli/reports/remedy_json.hpp"
#include "cli/reports/straggler_report.hpp"
#include "cli/reports/trial_report.hpp"
#include "cli/reports/unlike_links.hpp"
#include "cli/reports/upgrade_report.hpp"
#include "cli/terminal/printable.hpp"
#include "core/base/json_io.hpp"
#include "core/base/units.hpp"
#include "core/settings/settings_table.hpp"
#include "sim/predict/throughput.hpp"

namespace foreshard::cli {
namespace {

std::string_view source_name(sim::HostScale::Source source) {
  switch (source) {
    case sim::HostScale::Source::none:
      return "none";
    case sim::HostScale::Source::first_step:
      return "first step";
    case sim::HostScale::Source::typical:
      return "typical";
    case sim::HostScale::Source::steady:
      return "steady step";
  }
  return "none";
}

std::string_view confidence_name(sim::HostConfidence confidence) {
  constexpr std::array<std::string_view, 4> kWords{"recorded", "measured", "assumed", "recorded elsewhere"};
  return kWords[static_cast<std::size_t>(confidence)];
}

Json time_value(const sim::Prediction& p, double ms) {
  return p.has_time ? Json(ms) : Json(nullptr);
}

/// Of one GPU; 0 where batch or time are not known.
double tokens_per_second(const sim::Prediction& p) {
  return p.has_time ? sim::work_per_second(p.work, p.step_ms) : 0;
}

/// "2048, 1536, 1024": the sequence lengths in order of appearance; empty where one is not known or all are equal.
std::string lengths_of(const std::vector<sim::PredictedStep>& steps) {
  std::vector<std::uint32_t> lengths;
  for (const sim::PredictedStep& step : steps) {
    if (step.recorded.seq == 0) return {};
    if (std::find(lengths.begin(), lengths.end(), step.recorded.seq) == lengths.end())
      lengths.push_back(step.recorded.seq);
  }
  return lengths.size() < 2 ? std::string() : fmt::format("{}", fmt::join(lengths, ", "));
}

Json or_null(std::uint32_t number) {
  return number > 0 ? Json(number) : Json(nullptr);
}

Json steps_json(const std::vector<sim::PredictedStep>& steps) {
  Json list = Json::array();
  for (std::size_t k = 0; k < steps.size(); ++k) {
    const sim::PredictedStep& step = steps[k];
    list.push_back({{"step", k},
                    {"batch", or_null(step.recorded.batch)},
                    {"seq", or_null(step.recorded.seq)},
                    {"step_ms", step.ms > 0 ? Json(step.ms) : Json(nullptr)},
                    {"measured_ms", step.measured_ms > 0 ? Json(step.measured_ms) : Json(nullptr)},
                    {"profiled", step.recorded.profiled},
                    {"peak_requested_bytes", step.peaks.requested},
                    {"peak_allocated_bytes", step.peaks.allocated},
                    {"peak_active_bytes", step.peaks.active},
                    {"peak_reserved_bytes", step.peaks.reserved},
                    {"num_alloc_retries", step.num_alloc_retries}});
  }
  return list;
}

Json gemms_json(const ExtraGemms& gemms) {
  return {{"m", gemms.m}, {"n", gemms.n}, {"k", gemms.k}, {"count", gemms.count}};
}

/// Null where no rank makes the step longer.
Json slower_json(const sim::Prediction& p) {
  const auto slower = slower_ranks(p);
  if (!slower) return nullptr;
  Json ranks = Json::array();
  for (const RankRun& run : runs_of(slower->ranks)) ranks.push_back({run.first, run.count, run.stride});
  return {{"what", slower->what},
          {"ranks", std::move(ranks)},
          {"longer_ms", slower->longer_ms},
          {"sentence", slower_words(p, *slower)}};
}

/// Null where all ranks are alike; else as explain's, and how they differ.
Json ranks_json(const sim::Prediction& p) {
  if (p.ranks.empty()) return nullptr;
  Json json{{"times", nullptr}, {"late", nullptr}};
  if (p.stragglers) json = stragglers_json(*p.stragglers);
  Json groups = Json::array();
  for (const sim::RankGroup& group : p.ranks) {
    Json members = Json::array();
    for (const RankRun& run : group.members) members.push_back({run.first, run.count, run.stride});
    groups.push_back({{"first_rank", group.first},
                      {"ranks", group.count},
                      {"members", std::move(members)},
                      {"kept", group.kept},
                      {"kernels_factor", group.traits.kernels},
                      {"host_factor", group.traits.host},
                      {"link_slowdown", group.link_slowdown},
                      {"network_slowdown", group.network_slowdown},
                      {"background_slowdown", group.background_slowdown},
                      {"program", group.traits.program},
                      {"own_program", group.own_program.empty() ? Json(nullptr) : Json(group.own_program)},
                      {"seq", or_null(group.seq)},
                      {"gemms", group.gemms ? gemms_json(*group.gemms) : Json(nullptr)}});
  }
  json["groups"] = std::move(groups);
  json["told_rank"] = p.told_rank;
  json["mean_seq"] = p.mean_seq > 0 ? Json(p.mean_seq) : Json(nullptr);
  json["differ"] = rank_differences(p);
  json["costs"] = Json::array();
  for (const sim::RankCost& cost : p.rank_costs)
    json["costs"].push_back({{"what", cost.what}, {"alone_ms", cost.alone_ms}, {"beside_ms", cost.beside_ms}});
  json["slower"] = slower_json(p);
  json["sentence"] = p.has_time && !rank_differences(p).empty() ? Json(ranks_line(p)) : Json(nullptr);
  json["step_alike_ms"] = p.has_time ? Json(p.step_alike_ms) : Json(nullptr);
  return json;
}

Json collectives_json(const sim::Prediction& p) {
  Json list = Json::array();
  for (const sim::CollectiveRan& ran : p.collectives_ran)
    list.push_back({{"kind", dashed_name(ran.kind)},
                    {"communicator", ran.communicator},
                    {"asked", name(ran.asked)},
                    {"largest_bytes", ran.bytes},
                    {"path", ran.path},
                    {"why_not_asked", ran.why_not_asked.empty() ? Json(nullptr) : Json(ran.why_not_asked)},
                    {"first_use_communicator_ms", ran.first_use.communicator.us() / 1e3},
                    {"first_use_registration_ms", ran.first_use.registration.us() / 1e3}});
  return list;
}

/// Null where no experts are split.
Json experts_json(const sim::Prediction& p) {
  if (p.run.settings.expert_parallel == 1) return nullptr;
  return {{"expert_parallel", p.run.settings.expert_parallel},
          {"router_imbalance", p.run.settings.router_imbalance},
          {"exposed_all_to_all_ms", time_value(p, p.exposed_all_to_all_ms)},
          {"split_size_waits_ms", p.split_size_waits_ms ? Json(*p.split_size_waits_ms) : Json(nullptr)},
          {"sentence", experts_line(p)}};
}

/// Null where ranks draw no lengths.
Json drawn_memory_json(const sim::Prediction& p) {
  if (!p.drawn_memory) return nullptr;
  const sim::DrawnMemory& of = *p.drawn_memory;
  return {{"steps", of.steps},
          {"processes", of.processes},
          {"seed", of.seed},
          {"peak_reserved_bytes", {{"least", of.least}, {"most", of.most}}},
          {"num_alloc_retries", of.num_alloc_retries},
          {"driver_ms", of.driver_ms},
          {"out_of_memory", of.out_of_memory},
          {"fits_with", of.fit ? Json(of.fit->setting) : Json(nullptr)},
          {"fits_with_num_alloc_retries", of.fit ? Json(of.fit->num_alloc_retries) : Json(nullptr)}};
}

/// Null without a time.
Json interval_json(const sim::Prediction& p) {
  if (!p.has_time) return nullptr;
  Json parts = Json::array();
  for (const sim::RestsOn& part : p.interval.rests_on)
    parts.push_back({{"basis", name(part.basis)},
                     {"what", sim::words_of(part.basis)},
                     {"below", -std::expm1(-part.below)},
                     {"above", std::expm1(part.above)}});
  return {{"share", sim::kIntervalShare},          {"low_ms", p.interval.low_ms},
          {"high_ms", p.interval.high_ms},         {"moved_below", p.interval.moved_below},
          {"moved_above", p.interval.moved_above}, {"rests_on", std::move(parts)}};
}

}  // namespace

void add_basis(const PlanBasis& basis, Json& json) {
  json["model_options"] = text_or_null(basis.model_options);
  json["job_options"] = nullptr;
  for (const JobOption& option : basis.job_options)
    json["job_options"][key_of(option)] = parse_ordered_json_text(json_of(option));
  json["left_out"] = basis.left_out;
  json["fabric"] = text_or_null(basis.fabric);
  json["topology"] = topology_json(basis.topology);
}

void add_times(const sim::Prediction& p, Json& json) {
  json["step_ms"] = time_value(p, p.step_ms);
  json["step_time_unknown"] = text_or_null(step_time_unknown(p));
  json["host_ms"] = time_value(p, p.host_ms);
  json["gpu_step_ms"] = time_value(p, p.gpu_step_ms);
  json["compute_ms"] = time_value(p, p.compute_ms);
  json["communication_ms"] = time_value(p, p.communication_ms);
  json["exposed_communication_ms"] = time_value(p, p.exposed_communication_ms);
  json["exposed_all_to_all_ms"] = time_value(p, p.exposed_all_to_all_ms);
  json["experts"] = experts_json(p);
  json["idle_ms"] = time_value(p, p.idle_ms);
  const double rate = tokens_per_second(p);
  json["tokens_per_s_per_gpu"] = rate > 0 ? Json(rate) : Json(nullptr);
  json["bound_by"] = p.has_time ? Json(bound_name(p)) : Json(nullptr);
  json["host_bound"] = p.host_bound;
  json["host_may_bind"] = p.host_may_bind;
  json["host_binds_from"] = p.host_binds_from ? Json(*p.host_binds_from) : Json(nullptr);
  json["host_confidence"] = p.has_time ? Json(confidence_name(p.host)) : Json(nullptr);
  json["uncertainty"] = p.interval.half_width(p.step_ms);
  json["interval"] = interval_json(p);
  json["difference"] = time_value(p, p.difference);
}

/// Null where memory follows no event, or nothing is known of later steps.
Json settled_json(const sim::Prediction& p) {
  if (!p.settled) return nullptr;
  const sim::SettledMemory& settled = *p.settled;
  const bool retries = settled.steps > 0;
  return {{"reserved_bytes", settled.reserved},
          {"step", settled.step},
          {"grows", settled.grows},
          {"out_of_memory", settled.out_of_memory},
          {"first_retry", retries ? Json(settled.first_retry) : Json(nullptr)},
          {"steps_from_there", settled.steps},
          {"num_alloc_retries", settled.num_alloc_retries},
          {"step_ms_from_there", retries ? time_value(p, settled.step_time.ms()) : Json(nullptr)}};
}

void add_memory(const sim::Prediction& p, Json& json) {
  const MemoryPeaks peaks = sim::largest_peaks(p);
  json["peak_requested_bytes"] = peaks.requested;
  json["peak_allocated_bytes"] = peaks.allocated;
  json["peak_active_bytes"] = peaks.active;
  json["peak_reserved_bytes"] = peaks.reserved;
  if (p.lengths_run_out() && !p.out_of_memory) {  // of these steps; what the longest samples alone reserve is no answer
    for (const char* peak : {"peak_requested_bytes", "peak_allocated_bytes", "peak_active_bytes"}) json[peak] = nullptr;
    json["peak_reserved_bytes"] = p.drawn_memory->most;
  }
  if (p.graph_pool != GraphPool{}) {
    json["graph_pool_bytes"] = p.graph_pool.reserved;
    json["graph_pool_active_bytes"] = p.graph_pool.active;
  }
  if (!p.steps.empty()) {
    json["cycle"] = p.cycle;
    json["largest_step"] = sim::largest_step(p.steps);
    json["steps"] = steps_json(p.steps);
  }
  if (p.peaks_depend_on_time) json["peak_reserved_bytes_range"] = {p.least_peaks.reserved, p.most_peaks.reserved};
  json["settled_memory"] = settled_json(p);
  json["num_alloc_retries"] = p.num_alloc_retries;
  json["step_num_alloc_retries"] = p.has_time ? Json(p.step_num_alloc_retries) : Json(nullptr);
  json["retries_ms"] = p.has_time ? Json(p.retries_ms) : Json(nullptr);
  json["memory_capacity_bytes"] = p.memory_capacity;
  json["free_at_peak_bytes"] = free_at_peak(p);
  json["out_of_memory"] = p.out_of_memory.has_value() || p.lengths_run_out() || runs_out_later(p);
  json["may_run_out_of_memory"] = p.may_run_out_of_memory;
  if (p.out_of_memory) {
    const FailedPlace place = failed_place(p.run);
    json["out_of_memory_rank"] = p.told_rank;
    json["out_of_memory_report"] = {{"step", place.step},
                                    {"phase", place.phase},
                                    {"of", place.of},
                                    {"op", place.op},
                                    {"requested_bytes", p.out_of_memory->requested},
                                    {"tried_bytes", p.out_of_memory->tried},
                                    {"allocated_bytes", p.out_of_memory->allocated},
                                    {"reserved_bytes", p.out_of_memory->reserved},
                                    {"device_free_bytes", p.out_of_memory->device_free}};
  }
}

namespace {

/// Null where the times are the machine's own.
Json recorded_on_json(const sim::Prediction& p) {
  if (p.recorded_on.empty()) return nullptr;
  Json classes = Json::array();
  for (const sim::Repriced& sum : p.repriced)
    classes.push_back(
        {{"class", name(sum.kernel_class)}, {"recorded_ms", sum.recorded.ms()}, {"planned_ms", sum.planned.ms()}});
  return {{"machine", p.recorded_on}, {"kernels", std::move(classes)}};
}

}  // namespace

Json prediction_json(const std::string& source, const PlanBasis& basis, const Workload& workload,
                     const sim::Prediction& p, const sim::Remedies* fitting) {
  Json json = json_result("plan");
  json["source"] = source;
  json["name"] = workload.name;
  add_basis(basis, json);
  json["machine"] = p.run.info.machine;
  const PlanTables tables = plan_tables(p);
  json["answer"] = answer_lines(p, basis, tables.time, fitting);
  json["ends"] = end_json(p);
  add_times(p, json);
  add_memory(p, json);
  add_plan_tables(p, tables, json);
  json["mfu"] = p.utilization.value > 0 ? Json(p.utilization.value) : Json(nullptr);
  json["mfu_rests_on"] = text_or_null(p.utilization.rests_on);
  json["mfu_unknown"] = text_or_null(p.utilization.unknown);
  json["collectives"] = collectives_json(p);
  json["ranks"] = ranks_json(p);
  // What the job's ranks have; not what they had in a recording of other ranks.
  json["rank_shapes"] = p.counts_ranks ? rank_shapes_json(p.rank_shapes) : Json(nullptr);
  json["trials"] = p.trials ? trials_json(*p.trials, p.step_ms) : Json(nullptr);
  json["drawn_memory"] = drawn_memory_json(p);
  if (p.trials && p.trials->lengths) json["trials"]["lengths"]["memory"] = json["drawn_memory"];  // its older place
  json["flapping"] = flapping_json(p);
  add_unlike_links(p, json);
  json["beside"] = p.beside ? beside_json(*p.beside, p.step_ms) : Json(nullptr);
  json["deadlock"] = p.deadlock ? Json(p.deadlock->text) : Json(nullptr);
  json["hang"] = p.hang ? hang_json(*p.hang) : Json(nullptr);
  json["valid"] = p.valid;
  json["not_valid"] = p.not_valid;
  json["warnings"] = p.warnings;
  json["calibration"] = {{"host_scale", p.host_scale.factor},
                         {"source", source_name(p.host_scale.source)},
                         {"anchor", p.host_scale.anchor},
                         {"measured_step_ms", p.host_scale.measured_ms},
                         {"late_rank", p.host_scale.late_rank < 0 ? Json(nullptr) : Json(p.host_scale.late_rank)},
                         {"keeps_up", p.keeps_up < 0 ? Json(nullptr) : Json(p.keeps_up)}};
  json["recorded_on"] = recorded_on_json(p);
  json["upgrade"] = basis.upgrade != nullptr ? upgrade_json(*basis.upgrade) : Json(nullptr);
  json["no_upgrade"] = basis.no_upgrade.empty() ? Json(nullptr) : Json(basis.no_upgrade);
  json["settings"] = Json::object();
  for (const auto& [key, value] : setting_options(p.run.settings))
    json["settings"][key] = parse_ordered_json_text(value);
  if (const std::string known = fingerprint_of(p.run); !known.empty()) json["fingerprint"] = known;
  if (fitting == nullptr) return json;
  json["what_fits"] = Json::array();
  for (const sim::Remedy& remedy : fitting->useful) json["what_fits"].push_back(remedy_json(remedy));
  return json;
}

namespace {

void print_collectives(Console& console, const sim::Prediction& p) {
  if (p.collectives_ran.empty()) return;
  Table table({{"collective"}, {"largest", Table::Align::right}, {"what runs"}});
  for (const sim::CollectiveRan& ran : p.collectives_ran)
    table.row(
        {fmt::format("{} ({})", dashed_name(ran.kind), ran.communicator), format_bytes_fixed(ran.bytes), ran.path});
  console.out << '\n';
  table.print(console.out);
}

void print_repriced(Console& console, const sim::Prediction& p) {
  if (p.repriced.empty() || !p.has_time) return;
  constexpr auto kNumber = Table::Align::right;
  Table table({{"kernels of a step"}, {"on " + p.recorded_on, kNumber}, {"on " + p.run.info.machine, kNumber}, {""}});
  for (const sim::Repriced& sum : p.repriced)
    table.row({std::string(name(sum.kernel_class)), milliseconds(sum.recorded.ms()), milliseconds(sum.planned.ms()),
               change(sum.recorded.ms(), sum.planned.ms())});
  console.out << '\n';
  table.print(console.out);
}

/// What the interval rests on.
void print_interval(Console& console, const sim::Prediction& p) {
  if (!p.has_time) return;
  constexpr auto kNumber = Table::Align::right;
  Table table({{fmt::format("{:.0f} % of measured steps lie within", 100 * sim::kIntervalShare)},
               {"below", kNumber},
               {"above", kNumber}});
  for (const sim::RestsOn& part : p.interval.rests_on)
    table.row({"  " + std::string(sim::words_of(part.basis)), fmt::format("{:.1f} %", 100 * std::expm1(-part.below)),
               fmt::format("+{:.1f} %", 100 * std::expm1(part.above))});
  table.row({"together", milliseconds(p.interval.low_ms), milliseconds(p.interval.high_ms)});
  console.out << '\n';
  table.print(console.out);
}

/// Each recorded step, and the one that decides whether it fits.
void print_steps(Console& console, const PlanBasis& basis, const sim::Prediction& p) {
  if (p.steps.empty()) return;
  constexpr auto right = Table::Align::right;
  const bool measured =
      std::any_of(p.steps.begin(), p.steps.end(), [](const sim::PredictedStep& step) { return step.measured_ms > 0; });
  const bool as_recorded = p.recorded_on.empty() && (basis.source == nullptr || *basis.source == p.run.settings);
  std::vector<Table::Column> columns{{"recorded step", right},
                                     {"batch x seq", right},
                                     {"step time", right},
                                     {"peak allocated", right},
                                     {"peak reserved", right}};
  if (measured) columns.insert(columns.begin() + 3, {as_recorded ? "measured" : "recorded settings, measured", right});
  Table table(std::move(columns));
  for (std::size_t k = 0; k < p.steps.size(); ++k) {
    const sim::PredictedStep& step = p.steps[k];
    const bool known = step.recorded.batch > 0 && step.recorded.seq > 0;
    const std::string ms = step.ms > 0 ? milliseconds(step.ms) : "-";
    std::vector<std::string> cells{std::to_string(k),
                                   known ? fmt::format("{} x {}", step.recorded.batch, step.recorded.seq) : "-",
                                   step.recorded.profiled || step.ms <= 0 ? ms : ms + " (scaled)",
                                   format_bytes_fixed(step.peaks.allocated), format_bytes_fixed(step.peaks.reserved)};
    if (measured) cells.insert(cells.begin() + 3, step.measured_ms > 0 ? milliseconds(step.measured_ms) : "-");
    table.row(std::move(cells));
  }
  const std::size_t largest = sim::largest_step(p.steps);
  const std::string lengths = lengths_of(p.steps);
  console.out << fmt::format(
      "\nthe recorded steps differ{}: the largest peak is reserved {} in step {}{}\n\n",
      lengths.empty() ? "" : fmt::format(" (sequence lengths {})", lengths),
      format_bytes(p.steps[largest].peaks.reserved), largest,
      p.has_time && p.cycle > 1 ? fmt::format("; the step time is the mean of {} steps", p.cycle) : "");
  table.print(console.out);
}

}  // namespace

namespace {

void print_detail(Console& console, const PlanBasis& basis, const sim::Prediction& p) {
  constexpr auto kRight = Table::Align::right;
  console.out << '\n';
  Table table({{""}, {"predicted", kRight}, {""}});
  table.row({"machine", p.run.info.machine});
  if (p.has_time) {
    table.row({"step time", milliseconds(p.step_ms),
               fmt::format("{:.1f} to {:.1f} ms, {}", p.interval.low_ms, p.interval.high_ms,
                           fmt::format("{}{}", bound_word(p), p.host_may_bind ? ", or host-bound" : ""))});
    if (const double rate = tokens_per_second(p); rate > 0)
      table.row({fmt::format("  {}", rate_unit(p.run.settings)), fmt::format("{:.0f}", rate)});
    if (p.host_scale.measured_ms > 0)
      table.row({p.recorded_on.empty() ? "  recorded settings, measured"
                                       : fmt::format("  recorded settings, measured on {}", p.recorded_on),
                 milliseconds(p.host_scale.measured_ms), change(p.host_scale.measured_ms, p.step_ms)});
    if (p.utilization.value > 0)
      table.row({"  MFU", fmt::format("{:.1f} %", 100 * p.utilization.value), p.utilization.rests_on});
    else if (!p.utilization.unknown.empty())
      table.row({"  MFU", "-", p.utilization.unknown});
    table.row({"  compute stream busy", milliseconds(p.compute_ms)});
    table.row({"  exposed communication", milliseconds(p.exposed_communication_ms),
               fmt::format("of {}", milliseconds(p.communication_ms))});
    table.row({"  neither", milliseconds(p.idle_ms)});
    if (p.retries_ms > 0)
      table.row({p.step_num_alloc_retries > 0 ? "  allocation retries" : "  segments given back",
                 milliseconds(p.retries_ms), "of the step: the GPU is waited for, cudaFree and cudaMalloc called"});
    table.row({"  GPU alone (free host)", milliseconds(p.gpu_step_ms)});
    table.row({"  host work", milliseconds(p.host_ms), p.host == sim::HostConfidence::assumed ? "assumed" : ""});
  }
  const auto peak = [&](const std::string& title, Bytes bytes) {
    table.row({title, format_bytes_fixed(bytes), exact_bytes(bytes) + " B"});
  };
  // Of the step that decides whether it fits, as the first line.
  const MemoryPeaks peaks = sim::largest_peaks(p);
  const bool differ = !p.steps.empty() && !p.out_of_memory;
  const std::string of_step = differ ? fmt::format(", recorded step {}", sim::largest_step(p.steps)) : std::string();
  peak("peak requested" + of_step, peaks.requested);
  peak("peak allocated" + of_step, peaks.allocated);
  peak("peak active" + of_step, peaks.active);
  peak("peak reserved" + of_step, peaks.reserved);
  if (p.graph_pool != GraphPool{}) peak("  of the CUDA graph, in use at every replay", p.graph_pool.reserved);
  if (p.num_alloc_retries > 0)
    table.row({"allocation retries", std::to_string(p.num_alloc_retries),
               p.has_time ? fmt::format("{} in the steady step", p.step_num_alloc_retries) : ""});
  table.print(console.out);
  if (p.stragglers) print_stragglers(console.out, *p.stragglers);
  print_steps(console, basis, p);
  print_collectives(console, p);
  print_repriced(console, p);
  print_interval(console, p);
}

}  // namespace

void print_prediction(Console& console, const PlanBasis& basis, const sim::Prediction& p, bool detail,
                      const sim::Remedies* fitting) {
  const PlanTables tables = plan_tables(p);
  for (const std::string& line : answer_lines(p, basis, tables.time, fitting)) console.out << in_line(line) << '\n';
  print_plan_tables(console.out, p, tables);
  if (p.trials) print_trials(console.out, *p.trials);
  if (detail)
    print_detail(console, basis, p);
  else
    print_steps(console, basis, p);
  if (const std::string known = fingerprint_of(p.run); !known.empty()) console.out << "\nfingerprint " << known << '\n';
}

void print_what_fits(Console& console, const sim::Prediction& p, const sim::Remedies& remedies) {
  constexpr std::size_t kMaxRows = 6;
  if (remedies.useful.empty()) return;
  constexpr auto kNumber = Table::Align::right;
  const char* time = p.unlike ? "step time, all alike" : "step time";
  Table table({{"what fits, simulated"}, {"reserved", kNumber}, {time, kNumber}, {""}});
  for (std::size_t i = 0; i < std::min(kMaxRows, remedies.useful.size()); ++i) {
    const sim::Remedy& remedy = remedies.useful[i];
    table.row({remedy.setting, format_bytes_fixed(remedy.peaks.reserved),
               remedy.has_time ? milliseconds(remedy.step_ms) : "-", remedy_marks(remedy)});
  }
  console.out << '\n';
  table.print(console.out);
  for (const sim::Remedy& remedy : remedies.useful)
    if (remedy.largest) console.out << fmt::format("{}: {}\n", remedy.setting, remedy.reason);
  console.out << fmt::format(
      "{} changes were simulated; not shown are those that fit too and change something else besides one of these\n",
      remedies.tried);
}

void report_failure(Console& console, const sim::Prediction& p) {
  if (p.out_of_memory) {
    const OutOfMemory& oom = *p.out_of_memory;
    const bool differ = p.out_of_memory_step >= 0 && !p.steps.empty();
    console.error(fmt::format(
        "out of memory{}: tried to allocate {} with {} free; {} allocated, {} reserved",
        differ ? fmt::format(" in step {} of the recorded ones, which differ", p.out_of_memory_step) : std::string(),
        format_bytes(oom.tried), format_bytes(oom.device_free), format_bytes(oom.allocated),
        format_bytes(oom.reserved)));
  }
  if (p.deadlock)
    console.error("deadlock:\n" + p.deadlock->text.substr(0, p.deadlock->text.find_last_not_of('\n') + 1));
  if (p.link_ends_job()) console.error("the job " + flapping_line(p));
}

}  // namespace foreshard::cli
