#include "cli/reports/compare_report.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>

#include "cli/reports/compare_answer.hpp"
#include "cli/reports/json_values.hpp"
#include "cli/reports/phase_table.hpp"
#include "cli/terminal/printable.hpp"
#include "core/base/add_up.hpp"
#include "core/base/json_io.hpp"
#include "core/base/units.hpp"
#include "sim/predict/interval.hpp"

namespace foreshard::cli {
namespace {

constexpr auto kRight = Table::Align::right;
constexpr const char* kStepLine = "step_ms";
constexpr const char* kMeanLine = "mean_step_ms";
constexpr std::size_t kCauses = EnumNames<TimeCause>::kNames.size();
constexpr int kDecimals = 2;  // of ms, in every line and table

/// One line of the summary. A value that a run does not have stays empty.
struct Line {
  std::string section;
  std::string name;
  std::optional<double> a;
  std::optional<double> b;
  bool bytes = false;  ///< else milliseconds or a count
  bool count = false;
  bool part = false;                   ///< of the line above it
  std::optional<double> planned = {};  ///< of the recording's plan at its own settings (CompareReport::model)
};

using NamedValues = std::vector<std::pair<std::string, double>>;

std::vector<std::string> names_of(const NamedValues& a, const NamedValues& b) {
  std::vector<std::string> names;
  for (const auto* list : {&a, &b})
    for (const auto& [name, value] : *list)
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  return names;
}

std::optional<double> value_of(const NamedValues& list, const std::string& name) {
  for (const auto& [key, value] : list)
    if (key == name) return value;
  return std::nullopt;
}

/// The step and its parts, which add up to it; then what overlaps them.
std::vector<Line> time_lines(const CompareReport& report) {
  const RunSummary& a = report.a;
  const RunSummary& b = report.b;
  const auto untraced = [&](const std::optional<TimedStep>& step) -> std::optional<double> {
    if (report.comparison.breakdown.empty() || !step) return std::nullopt;
    return (step->reported - (step->end - step->begin)).ms();
  };
  std::vector<Line> lines;
  if (report.work.steps_differ) lines.push_back({"time", kMeanLine, report.work.a.mean_ms, report.work.b.mean_ms});
  const auto line = [&](const char* name, std::optional<double> RunSummary::*member, bool part = false) {
    lines.push_back({"time", name, a.*member, b.*member, false, false, part});
    if (report.model) lines.back().planned = (*report.model).*member;
  };
  line(kStepLine, &RunSummary::step_ms);
  line("compute_ms", &RunSummary::compute_ms);
  line("kernel_contention_ms", &RunSummary::kernel_contention_ms, true);
  line("exposed_communication_ms", &RunSummary::exposed_communication_ms);
  line("host_ms", &RunSummary::host_ms);
  line("other_ms", &RunSummary::other_ms);
  lines.push_back({"time", "untraced_ms", untraced(report.comparison.a.time), untraced(report.comparison.b.time)});
  lines.back().planned = untraced(report.comparison.model);
  line("communication_ms", &RunSummary::communication_ms);
  if (!a.trials && !b.trials) return lines;
  for (const auto& [name, member] :
       {std::pair{"trials_median_ms", &StoredTrials::median_ms}, std::pair{"trials_p95_ms", &StoredTrials::p95_ms},
        std::pair{"trials_mean_ms", &StoredTrials::mean_ms}}) {
    const auto of = [member = member](const RunSummary& run) {
      return run.trials ? std::optional((*run.trials).*member) : std::nullopt;
    };
    lines.push_back({"time", name, of(a), of(b)});
  }
  return lines;
}

std::vector<Line> lines_of(const CompareReport& report) {
  if (report.hangs()) return {};
  const RunSummary& a = report.a;
  const RunSummary& b = report.b;
  std::vector<Line> lines = time_lines(report);
  const auto peak = [&](const char* name, Bytes MemoryPeaks::*member) {
    const auto of = [&](const RunSummary& run) {
      return run.peaks ? std::optional<double>(static_cast<double>((*run.peaks).*member)) : std::nullopt;
    };
    lines.push_back({"memory", name, of(a), of(b), true});
    if (report.model) lines.back().planned = of(*report.model);
  };
  peak("peak_requested_bytes", &MemoryPeaks::requested);
  peak("peak_allocated_bytes", &MemoryPeaks::allocated);
  peak("peak_active_bytes", &MemoryPeaks::active);
  peak("peak_reserved_bytes", &MemoryPeaks::reserved);
  if (a.drawn_memory || b.drawn_memory) {
    const auto of = [](const RunSummary& run) {
      return run.drawn_memory ? std::optional(static_cast<double>(run.drawn_memory->most)) : std::nullopt;
    };
    lines.push_back({"memory", "drawn_peak_reserved_bytes", of(a), of(b), true});
  }
  if (a.settled_reserved || b.settled_reserved) {
    const auto of = [](const RunSummary& run) {
      return run.settled_reserved ? std::optional(static_cast<double>(*run.settled_reserved)) : std::nullopt;
    };
    lines.push_back({"memory", "settled_reserved_bytes", of(a), of(b), true});
  }
  if (a.graph_pool != b.graph_pool || a.graph_pool > 0) {
    lines.push_back(
        {"memory", "graph_pool_bytes", static_cast<double>(a.graph_pool), static_cast<double>(b.graph_pool), true});
    if (report.model) lines.back().planned = static_cast<double>(report.model->graph_pool);
  }
  lines.push_back({"memory", "num_alloc_retries", static_cast<double>(a.num_alloc_retries),
                   static_cast<double>(b.num_alloc_retries), false, true});
  if (report.model) lines.back().planned = static_cast<double>(report.model->num_alloc_retries);
  const auto held = [](const ComparedSide& side, std::int64_t bytes) {
    return side.memory && bytes != 0 ? std::optional<double>(static_cast<double>(bytes)) : std::nullopt;
  };
  for (const MemoryRow& row : report.comparison.categories)
    lines.push_back(
        {"peak_by_category", row.name, held(report.comparison.a, row.a), held(report.comparison.b, row.b), true});
  for (const std::string& name : names_of(a.phases_ms, b.phases_ms))
    lines.push_back({"phase_host_ms", name, value_of(a.phases_ms, name), value_of(b.phases_ms, name), false, false,
                     false, report.model ? value_of(report.model->phases_ms, name) : std::nullopt});
  return lines;
}

/// The parts of a step in one column as they are printed, so that they add up to it.
void print_parts(std::vector<Line>& lines, std::optional<double> Line::*column) {
  constexpr std::array<const char*, 5> kParts{"compute_ms", "exposed_communication_ms", "host_ms", "other_ms",
                                              "untraced_ms"};
  std::array<std::optional<double>*, kParts.size()> cells{};
  for (Line& line : lines)
    for (std::size_t i = 0; i < kParts.size(); ++i)
      if (line.section == "time" && line.name == kParts[i]) cells[i] = &(line.*column);
  std::array<Nanoseconds, kParts.size()> times;
  for (std::size_t i = 0; i < kParts.size(); ++i) {
    if (cells[i] == nullptr || !*cells[i]) return;
    times[i] = Nanoseconds::from_double(**cells[i] * 1e6);
  }
  const PhaseTime step{{}, times[0], {}, times[1], times[2], {}, times[3]};
  const std::vector<double> parts = printed_step_parts(step, step.sum() + times[4]);
  for (std::size_t i = 0; i < kParts.size(); ++i) *cells[i] = parts[i];
}

std::vector<Line> printed_lines(std::vector<Line> lines) {
  for (const auto column : {&Line::a, &Line::b, &Line::planned}) print_parts(lines, column);
  return lines;
}

std::string shown(const std::optional<double>& value, const Line& line) {
  if (!value) return "-";
  if (line.bytes)
    return *value < 0 ? format_bytes_difference(std::llround(*value)) : format_bytes_fixed(static_cast<Bytes>(*value));
  return line.count ? fmt::format("{:.0f}", *value) : milliseconds(*value);
}

/// B against A; of a recording as its plan at its own settings has it, so that the change is not the model's.
std::string shown_change(const CompareReport& report, const Line& line) {
  const auto& a = line.planned && report.model_of_a ? line.planned : line.a;
  const auto& b = line.planned && !report.model_of_a ? line.planned : line.b;
  if (!a || !b || *a == *b) return {};
  if (line.name == kMeanLine && report.work.different()) return {};  // of different work: the answer has it a token
  return change(*a, *b);
}

/// Values as JSON's text.
struct ChangedSetting {
  std::string key, a, b;
};

constexpr const char* kMemoryLimit = "memory_limit";

/// A value in the table: bytes of a limit as they are said elsewhere.
std::string shown_setting(const std::string& key, const std::string& value, const std::optional<Bytes>& limit) {
  if (key != kMemoryLimit) return value;
  return limit ? format_bytes(*limit) : "the machine's";
}

/// In the order of the options, A's before those that B alone has.
std::vector<ChangedSetting> changed_job_options(const JobOptions& a, const JobOptions& b) {
  const auto value = [](const JobOption* option) { return option == nullptr ? std::string("null") : json_of(*option); };
  std::vector<ChangedSetting> changed;
  for (const JobOption& option : a)
    if (const JobOption* other = find_option(b, option.name); other == nullptr || !(*other == option))
      changed.push_back({key_of(option), value(&option), value(other)});
  for (const JobOption& option : b)
    if (find_option(a, option.name) == nullptr) changed.push_back({key_of(option), "null", value(&option)});
  return changed;
}

std::vector<ChangedSetting> changed_settings(const RunSummary& a, const RunSummary& b) {
  std::vector<ChangedSetting> changed;
  const auto limit = [](const RunSummary& run) {
    return run.memory_limit ? std::to_string(*run.memory_limit) : "null";
  };
  if (!a.machine.empty() && !b.machine.empty() && a.machine != b.machine)
    changed.push_back({"machine", json_quoted(a.machine), json_quoted(b.machine)});
  const auto text = [](const std::string& of) { return of.empty() ? std::string("null") : json_quoted(of); };
  for (const ChangedSetting& one : changed_job_options(a.job_options, b.job_options)) changed.push_back(one);
  if (a.ranks != b.ranks && a.job_options == b.job_options) changed.push_back({"ranks", text(a.ranks), text(b.ranks)});
  if (a.fabric != b.fabric) changed.push_back({"fabric", text(a.fabric), text(b.fabric)});
  if (a.topology != b.topology) changed.push_back({"topology", text(a.topology), text(b.topology)});
  if (a.model_options != b.model_options)
    changed.push_back({"model_options", text(a.model_options), text(b.model_options)});
  if (a.memory_limit != b.memory_limit) changed.push_back({kMemoryLimit, limit(a), limit(b)});
  if (a.units != b.units && a.units > 0 && b.units > 0)
    changed.push_back({"fsdp_units", std::to_string(a.units), std::to_string(b.units)});
  // Both lists are in the table's order.
  for (std::size_t i = 0; i < a.setting_options.size() && i < b.setting_options.size(); ++i)
    if (a.setting_options[i].second != b.setting_options[i].second)
      changed.push_back({a.setting_options[i].first, a.setting_options[i].second, b.setting_options[i].second});
  return changed;
}

std::string or_else(const std::string& text, const char* otherwise) {
  return text.empty() ? std::string(otherwise) : text;
}

/// `b` less `a` as both are printed.
std::string signed_ms(double a, double b) {
  const double difference = printed_difference(b, a, kDecimals);
  return difference == 0 ? "0" : fmt::format("{:+.2f}", difference);
}

std::string or_nothing(Nanoseconds time) {
  return time.count == 0 ? "-" : milliseconds(time.ms());
}

/// What explain calls requested is not this peak, which then lies above the allocated one.
void print_requested_note(std::ostream& out, const CompareReport& report) {
  const auto above = [](const RunSummary& run) { return run.peaks && run.peaks->requested > run.peaks->allocated; };
  if (above(report.a) || above(report.b))
    out << "peak_requested_bytes, as torch's requested_bytes, and peak_active_bytes count freed blocks that wait for a "
           "stream's event; allocated, and what explain calls requested, do not\n";
}

void print_summary(std::ostream& out, const CompareReport& report) {
  const auto side = [&](char letter, const RunSummary& run) {
    const std::string time = run.hangs                    ? "hangs"
                             : run.step_ms_source.empty() ? "no step time"
                                                          : "step time " + run.step_ms_source;
    out << fmt::format("{}  {}  ({}{}{})\n", letter, in_line(run.path), in_line(run.steps),
                       run.steps.empty() ? "" : ", ", time);
  };
  side('A', report.a);
  side('B', report.b);
  const auto changed = changed_settings(report.a, report.b);
  if (!report.hangs() || !changed.empty()) out << '\n';
  if (!changed.empty()) {
    Table table({{"setting"}, {"A"}, {"B"}});
    for (const auto& [key, a, b] : changed)
      table.row({key, shown_setting(key, a, report.a.memory_limit), shown_setting(key, b, report.b.memory_limit)});
    table.print(out);
    if (!report.hangs()) out << '\n';
  }
  if (report.hangs()) return;
  std::vector<Table::Column> columns{
      {""}, {"A", kRight}, {"B", kRight}, {report.model ? "change, as planned" : "change", kRight}};
  const auto planned = report.model_of_a ? 2 : 3;
  if (report.model)
    columns.insert(columns.begin() + planned, {report.model_of_a ? "A as planned" : "B as planned", kRight});
  Table table(std::move(columns));
  std::string section;
  const std::vector<Line> lines = lines_of(report), printed = printed_lines(lines);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Line &line = lines[i], &text = printed[i];
    if (!line.a && !line.b) continue;
    if (line.section != section) table.row({line.section});
    section = line.section;
    std::vector<std::string> cells{(line.part ? "    " : "  ") + line.name, shown(text.a, line), shown(text.b, line),
                                   shown_change(report, line)};
    if (report.model) cells.insert(cells.begin() + planned, line.planned ? shown(text.planned, line) : "");
    table.row(cells);
  }
  table.print(out);
  print_requested_note(out, report);
}

using ByCause = std::array<Nanoseconds, kCauses>;

std::vector<std::string> breakdown_row(const std::string& name, std::span<const double> values, bool with_sign) {
  const auto text = [&](double value) {
    return with_sign ? fmt::format("{:+.2f}", value) : fmt::format("{:.2f}", value);
  };
  std::vector<std::string> cells{name};
  for (const double value : values) cells.push_back(value == 0 ? "-" : text(value));
  const double sum = as_printed(std::accumulate(values.begin(), values.end(), 0.0), kDecimals);
  cells.push_back(with_sign && sum == 0 ? "0" : text(sum));
  return cells;
}

void print_unknown(std::ostream& out, char letter, const TimedStep& step) {
  if (!step.unexplained.empty())
    out << fmt::format("{}: all of its step is counted as other, because it cannot be explained: {}\n", letter,
                       step.unexplained);
  if (step.contention_unknown.count > 0)
    out << fmt::format(
        "{}: {} of compute overlap collectives in kernels that were never seen isolated: how much of it is "
        "contention is not known\n",
        letter, milliseconds(step.contention_unknown.ms()));
}

/// What the causes of a recording's side are, and its bias by cause.
void print_bias(std::ostream& out, const CompareReport& report) {
  if (!report.model) return;
  const char letter = report.model_of_a ? 'A' : 'B';
  out << fmt::format(
      "the causes of {} are those of its plan at its own settings; what that differs from the recording "
      "by is the model's bias, B - A:\n",
      letter);
  const PrintedCauses a = printed_causes(report.comparison.bias, &BreakdownRow::a);
  const PrintedCauses b = printed_causes(report.comparison.bias, &BreakdownRow::b);
  for (std::size_t i = 0; i < kCauses; ++i)
    if (a[i] != b[i]) out << fmt::format("  {} {} ms\n", cause_title(static_cast<TimeCause>(i)), signed_ms(a[i], b[i]));
}

void print_breakdown(std::ostream& out, const CompareReport& report) {
  const Comparison& comparison = report.comparison;
  if (comparison.breakdown.empty()) return;
  const std::size_t causes = report.model ? kCauses : static_cast<std::size_t>(TimeCause::model_bias);
  std::vector<Table::Column> columns{{"B - A, ms"}};
  for (std::size_t i = 0; i < causes; ++i) columns.push_back({cause_title(static_cast<TimeCause>(i)), kRight});
  columns.push_back({"sum", kRight});
  Table table(std::move(columns));
  std::vector<std::pair<std::string, ByCause>> phases;
  for (const BreakdownRow& row : comparison.breakdown) {
    if (phases.empty() || phases.back().first != row.phase) phases.push_back({row.phase, {}});
    const auto cause = static_cast<std::size_t>(row.cause);
    phases.back().second[cause] += row.b - row.a;
  }
  // A's and B's parts add up to their steps, the row of both to the difference of these, and the phases' to that row.
  const PrintedCauses of_a = printed_causes(comparison.breakdown, &BreakdownRow::a);
  const PrintedCauses of_b = printed_causes(comparison.breakdown, &BreakdownRow::b);
  std::vector<double> all;
  std::vector<std::vector<double>> of_phases(phases.size());
  for (std::size_t cause = 0; cause < causes; ++cause) {
    all.push_back(as_printed(of_b[cause] - of_a[cause], kDecimals));
    std::vector<double> column;
    for (const auto& [phase, values] : phases) column.push_back(values[cause].ms());
    column = add_up(column, all.back(), kDecimals);
    for (std::size_t i = 0; i < phases.size(); ++i) of_phases[i].push_back(column[i]);
  }
  for (std::size_t i = 0; i < phases.size(); ++i)
    table.row(breakdown_row(or_else(phases[i].first, "outside phases"), of_phases[i], true));
  table.row(breakdown_row("all", all, true));
  table.row(breakdown_row("  A", std::span(of_a).first(causes), false));
  table.row(breakdown_row("  B", std::span(of_b).first(causes), false));
  out << "\nwhy the steps differ\n";
  table.print(out);
  print_bias(out, report);
  const auto& step_a = report.model && report.model_of_a ? comparison.model : comparison.a.time;
  const auto& step_b = report.model && !report.model_of_a ? comparison.model : comparison.b.time;
  print_unknown(out, 'A', *step_a);
  print_unknown(out, 'B', *step_b);
  const Nanoseconds held_a = step_a->allocator;
  const Nanoseconds held_b = step_b->allocator;
  if (held_a.count > 0 || held_b.count > 0)
    out << fmt::format("of host, held up by the caching allocator: {} in A, {} in B\n", milliseconds(held_a.ms()),
                       milliseconds(held_b.ms()));
}

void print_lanes(std::ostream& out, const CompareReport& report) {
  const Comparison& comparison = report.comparison;
  if (comparison.lanes.empty()) return;
  struct Sum {
    Nanoseconds a, b;
    std::uint64_t ops_a = 0, ops_b = 0;
  };
  std::vector<std::pair<std::pair<TimeLane, std::string>, Sum>> sums;
  for (const LaneRow& row : comparison.lanes) {
    const std::pair key{row.lane, row.phase};
    if (sums.empty() || sums.back().first != key) sums.push_back({key, {}});
    Sum& sum = sums.back().second;
    sum.a += row.a;
    sum.b += row.b;
    sum.ops_a += row.ops_a;
    sum.ops_b += row.ops_b;
  }
  Table table(
      {{"lane"}, {"phase"}, {"A", kRight}, {"B", kRight}, {"change", kRight}, {"ops A", kRight}, {"ops B", kRight}});
  for (const auto& [key, sum] : sums)
    table.row({std::string(name(key.first)), or_else(key.second, "outside phases"), or_nothing(sum.a),
               or_nothing(sum.b), change(static_cast<double>(sum.a.count), static_cast<double>(sum.b.count)),
               std::to_string(sum.ops_a), std::to_string(sum.ops_b)});
  out << '\n';
  if (report.model)
    out << fmt::format("by lane and unit {} is as recorded, and the model's bias in what differs\n",
                       report.model_of_a ? 'A' : 'B');
  table.print(out);
}

void print_units(std::ostream& out, const Comparison& comparison, std::uint32_t most) {
  std::vector<LaneRow> rows = comparison.lanes;
  std::erase_if(rows, [](const LaneRow& row) { return row.unit.empty() || row.a == row.b; });
  std::stable_sort(rows.begin(), rows.end(), [](const LaneRow& x, const LaneRow& y) {
    return std::abs((x.b - x.a).count) > std::abs((y.b - y.a).count);
  });
  if (rows.size() > most) rows.resize(most);
  if (!rows.empty()) {
    Table table({{"unit"}, {"phase"}, {"lane"}, {"A", kRight}, {"B", kRight}, {"B - A, ms", kRight}});
    for (const LaneRow& row : rows)
      table.row({row.unit, or_else(row.phase, "-"), std::string(name(row.lane)), milliseconds(row.a.ms()),
                 milliseconds(row.b.ms()), signed_ms(row.a.ms(), row.b.ms())});
    out << '\n';
    table.print(out);
  }
  std::vector<MemoryRow> memory = comparison.units;
  std::erase_if(memory, [](const MemoryRow& row) { return row.a == row.b; });
  std::stable_sort(memory.begin(), memory.end(),
                   [](const MemoryRow& x, const MemoryRow& y) { return std::abs(x.b - x.a) > std::abs(y.b - y.a); });
  if (memory.size() > most) memory.resize(most);
  if (memory.empty()) return;
  Table table({{"unit, at the peak"}, {"A", kRight}, {"B", kRight}, {"B - A", kRight}});
  for (const MemoryRow& row : memory)
    table.row({or_else(row.name, "no unit"), format_bytes_difference(row.a), format_bytes_difference(row.b),
               format_bytes_difference(row.b - row.a)});
  out << '\n';
  table.print(out);
}

Json json_value(const std::optional<double>& value, const Line& line) {
  if (!value) return nullptr;
  return line.bytes || line.count ? Json(static_cast<std::int64_t>(*value)) : Json(*value);
}

/// B less A as the answer's first lines have it, of a recording's side as its own plan has that: of what is printed.
Json printed_difference_json(const CompareReport& report, const Line& line) {
  const auto& a = line.planned && report.model_of_a ? line.planned : line.a;
  const auto& b = line.planned && !report.model_of_a ? line.planned : line.b;
  if (!a || !b) return nullptr;
  if (line.count) return static_cast<std::int64_t>(*b - *a);
  if (!line.bytes) return printed_difference(*b, *a, 2);
  if (*a < 0 || *b < 0) return static_cast<std::int64_t>(*b - *a);
  const auto bytes = static_cast<std::int64_t>(printed_difference(static_cast<Bytes>(*a), static_cast<Bytes>(*b)));
  return *b < *a ? -bytes : bytes;
}

Json rows_json(const std::vector<BreakdownRow>& rows) {
  Json json = Json::array();
  for (const BreakdownRow& row : rows)
    json.push_back({{"phase", text_or_null(row.phase)},
                    {"cause", name(row.cause)},
                    {"a_ns", row.a.count},
                    {"b_ns", row.b.count},
                    {"difference_ns", (row.b - row.a).count}});
  return json;
}

Json step_json(const ComparedSide& side) {
  Json json = Json::object();
  if (side.time) {
    const TimedStep& step = *side.time;
    json["time"] = {
        {"recording", name(step.recording)},    {"step", step.index},
        {"begin_ns", step.begin.count},         {"end_ns", step.end.count},
        {"reported_ns", step.reported.count},   {"kernel_contention_unknown_ns", step.contention_unknown.count},
        {"allocator_ns", step.allocator.count}, {"unexplained", text_or_null(step.unexplained)}};
  }
  if (side.memory)
    json["memory"] = {{"recording", name(side.memory->recording)},
                      {"step", side.memory->index},
                      {"peak_ns", side.memory->peak_time.count}};
  return json;
}

/// Null where both are of the same work, and no steps differ.
Json work_json(const ComparedWork& work) {
  if (!work.steps_differ && !work.different()) return nullptr;
  const auto shape = [](const StepShape& of) {
    return of.known() ? Json{{"batch", of.batch}, {"seq", of.seq}} : Json(nullptr);
  };
  const auto side = [&](const ComparedWork::Side& of) {
    Json mean = Json::array();
    for (const StepShape& step : of.mean) mean.push_back(shape(step));
    return Json{{"step", shape(of.step)},
                {"memory", shape(of.memory)},
                {"size_ms", of.size_ms ? Json(*of.size_ms) : Json(nullptr)},
                {"mean", std::move(mean)},
                {"mean_work", of.work > 0 ? Json(of.work) : Json(nullptr)}};
  };
  return {{"steps_differ", work.steps_differ}, {"a", side(work.a)}, {"b", side(work.b)}};
}

}  // namespace

namespace {

std::string_view known_or_none(const std::string& fingerprint) {
  return fingerprint.empty() ? std::string_view("none") : fingerprint;
}

Json left_out_json(const RunSummary& run) {
  Json lines = Json::array();
  for (const NotInRun& one : run.not_in_run) lines.push_back(not_in_run_line(one));
  return lines;
}

/// Of drawn lengths; null of other trials, and of a run without.
Json mean_interval_json(const RunSummary& run) {
  if (!run.trials || !run.trials->lengths) return nullptr;
  return {{"share", sim::kIntervalShare}, {"low_ms", run.trials->low_ms}, {"high_ms", run.trials->high_ms}};
}

/// Null of others than two plans of one source.
Json planned_difference_json(const CompareReport& report) {
  const auto planned = planned_difference(report);
  if (!planned) return nullptr;
  return {{"unit", planned->of_work ? "us" : "ms"},
          {"value", planned->difference},
          {"within", planned->within},
          {"interval",
           {{"share", sim::kIntervalShare},
            {"low", planned->difference - planned->within},
            {"high", planned->difference + planned->within}}}};
}

}  // namespace

void print_compare(std::ostream& out, const CompareReport& report, std::uint32_t units) {
  for (const std::string& line : compare_answer(report)) out << in_line(line) << '\n';
  out << '\n';
  print_summary(out, report);
  print_breakdown(out, report);
  print_lanes(out, report);
  print_units(out, report.comparison, units);
  if (!report.a.fingerprint.empty() || !report.b.fingerprint.empty())
    out << fmt::format("\nfingerprints {} and {}\n", known_or_none(report.a.fingerprint),
                       known_or_none(report.b.fingerprint));
}

Json compare_json(const CompareReport& report) {
  const Comparison& comparison = report.comparison;
  Json json = json_result("compare");
  json["a"] = report.a.path;
  json["b"] = report.b.path;
  json["fingerprint"] = {{"a", text_or_null(report.a.fingerprint)}, {"b", text_or_null(report.b.fingerprint)}};
  json["answer"] = compare_answer(report);
  json["planned_difference"] = planned_difference_json(report);
  json["different_models"] = text_or_null(report.different_models);
  json["step_ms_source"] = {{"a", text_or_null(report.a.step_ms_source)}, {"b", text_or_null(report.b.step_ms_source)}};
  json["failure"] = {{"a", text_or_null(report.a.failure)}, {"b", text_or_null(report.b.failure)}};
  json["ends"] = {{"a", texts_or_null(report.a.ends)}, {"b", texts_or_null(report.b.ends)}};
  json["left_out"] = {{"a", left_out_json(report.a)}, {"b", left_out_json(report.b)}};
  json["trials_mean_interval"] = {{"a", mean_interval_json(report.a)}, {"b", mean_interval_json(report.b)}};
  json["work"] = work_json(report.work);
  json["steps"] = {{"a", step_json(comparison.a)}, {"b", step_json(comparison.b)}};
  json["settings"] = Json::object();
  for (const auto& setting : changed_settings(report.a, report.b))
    json["settings"][setting.key] = {{"a", parse_ordered_json_text(setting.a)},
                                     {"b", parse_ordered_json_text(setting.b)}};
  const std::vector<Line> lines = lines_of(report), printed = printed_lines(lines);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Line& line = lines[i];
    Json& values = json[line.section][line.name];
    values = {{"a", json_value(line.a, line)},
              {"b", json_value(line.b, line)},
              {"printed_difference", printed_difference_json(report, printed[i])}};
    if (line.planned) values[report.model_of_a ? "a_as_planned" : "b_as_planned"] = json_value(line.planned, line);
  }
  json["budget"] = rows_json(comparison.breakdown);
  json["model_bias"] = report.model ? rows_json(comparison.bias) : Json(nullptr);
  json["model_bias_unknown"] = text_or_null(report.model_unknown);
  json["is_own_plan"] = report.is_own_plan;
  json["lanes"] = Json::array();
  for (const LaneRow& row : comparison.lanes)
    json["lanes"].push_back({{"lane", name(row.lane)},
                             {"phase", text_or_null(row.phase)},
                             {"unit", text_or_null(row.unit)},
                             {"a_ns", row.a.count},
                             {"b_ns", row.b.count},
                             {"ops_a", row.ops_a},
                             {"ops_b", row.ops_b}});
  json["peak_by_unit"] = Json::array();
  for (const MemoryRow& row : comparison.units)
    json["peak_by_unit"].push_back({{"unit", text_or_null(row.name)}, {"a", row.a}, {"b", row.b}});
  return json;
}

bool differs(const CompareReport& report) {
  const auto differ = [](const auto& row) { return row.a != row.b; };
  const Comparison& comparison = report.comparison;
  const std::vector<Line> lines = lines_of(report);
  return !changed_settings(report.a, report.b).empty() || report.a.ends != report.b.ends ||
         std::any_of(lines.begin(), lines.end(), differ) ||
         std::any_of(comparison.breakdown.begin(), comparison.breakdown.end(), differ) ||
         std::any_of(comparison.units.begin(), comparison.units.end(), differ) ||
         std::any_of(comparison.lanes.begin(), comparison.lanes.end(),
                     [&](const LaneRow& row) { return row.a != row.b || row.ops_a != row.ops_b; });
}

}  // namespace foreshard::cli
