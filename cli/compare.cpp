// `foreshard compare A B`: two runs side by side, time and memory.

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/output.hpp"
#include "cli/run_summary.hpp"
#include "cli/verbs.hpp"
#include "core/base/units.hpp"

namespace foreshard::cli {
namespace {

struct Options {
  std::string a;
  std::string b;
  bool json = false;
  bool exit_code = false;
};

/// One line of the comparison. A value that a run does not have stays empty.
struct Line {
  std::string section;
  std::string name;
  std::optional<double> a;
  std::optional<double> b;
  bool bytes = false;  ///< else milliseconds or a count
  bool count = false;
};

template <class Value>
std::vector<std::string> names_of(const std::vector<std::pair<std::string, Value>>& a,
                                  const std::vector<std::pair<std::string, Value>>& b) {
  std::vector<std::string> names;
  for (const auto* list : {&a, &b})
    for (const auto& [name, value] : *list)
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  return names;
}

template <class Value>
std::optional<double> value_of(const std::vector<std::pair<std::string, Value>>& list, const std::string& name) {
  for (const auto& [key, value] : list)
    if (key == name) return static_cast<double>(value);
  return std::nullopt;
}

std::vector<Line> compare_lines(const RunSummary& a, const RunSummary& b) {
  std::vector<Line> lines{{"time", "step_ms", a.step_ms, b.step_ms},
                          {"time", "compute_ms", a.compute_ms, b.compute_ms},
                          {"time", "communication_ms", a.communication_ms, b.communication_ms},
                          {"time", "exposed_communication_ms", a.exposed_communication_ms, b.exposed_communication_ms}};
  const auto peak = [&](const char* name, Bytes MemoryPeaks::*member) {
    const auto of = [&](const RunSummary& run) {
      return run.peaks ? std::optional<double>(static_cast<double>((*run.peaks).*member)) : std::nullopt;
    };
    lines.push_back({"memory", name, of(a), of(b), true});
  };
  peak("peak_requested_bytes", &MemoryPeaks::requested);
  peak("peak_allocated_bytes", &MemoryPeaks::allocated);
  peak("peak_active_bytes", &MemoryPeaks::active);
  peak("peak_reserved_bytes", &MemoryPeaks::reserved);
  lines.push_back({"memory", "num_alloc_retries", static_cast<double>(a.num_alloc_retries),
                   static_cast<double>(b.num_alloc_retries), false, true});
  for (const std::string& name : names_of(a.peak_by_category, b.peak_by_category))
    lines.push_back(
        {"peak_by_category", name, value_of(a.peak_by_category, name), value_of(b.peak_by_category, name), true});
  for (const std::string& name : names_of(a.phases_ms, b.phases_ms))
    lines.push_back({"phase_host_ms", name, value_of(a.phases_ms, name), value_of(b.phases_ms, name)});
  return lines;
}

std::string shown(const std::optional<double>& value, const Line& line) {
  if (!value) return "-";
  if (line.bytes) return format_bytes(static_cast<Bytes>(*value));
  return line.count ? fmt::format("{:.0f}", *value) : milliseconds(*value);
}

std::string shown_change(const Line& line) {
  if (!line.a || !line.b || *line.a == *line.b) return {};
  return change(*line.a, *line.b);
}

struct ChangedChoice {
  std::string key, a, b;
};

std::vector<ChangedChoice> changed_choices(const RunSummary& a, const RunSummary& b) {
  std::vector<ChangedChoice> changed;  // both lists are in the table's order
  for (std::size_t i = 0; i < a.choices.size() && i < b.choices.size(); ++i)
    if (a.choices[i].second != b.choices[i].second)
      changed.push_back({a.choices[i].first, a.choices[i].second, b.choices[i].second});
  return changed;
}

void print_tables(Console& console, const RunSummary& a, const RunSummary& b, const std::vector<Line>& lines) {
  constexpr auto kRight = Table::Align::right;
  console.out << "A  " << a.path << "  (step time " << a.step_ms_source << ")\n"
              << "B  " << b.path << "  (step time " << b.step_ms_source << ")\n\n";
  const auto changed = changed_choices(a, b);
  if (!changed.empty()) {
    Table table({{"setting"}, {"A"}, {"B"}});
    for (const auto& choice : changed) table.row({choice.key, choice.a, choice.b});
    table.print(console.out);
    console.out << '\n';
  }
  Table table({{""}, {"A", kRight}, {"B", kRight}, {"change", kRight}});
  std::string section;
  for (const Line& line : lines) {
    if (!line.a && !line.b) continue;
    if (line.section != section) table.row({line.section});
    section = line.section;
    table.row({"  " + line.name, shown(line.a, line), shown(line.b, line), shown_change(line)});
  }
  table.print(console.out);
}

Json json_value(const std::optional<double>& value, const Line& line) {
  if (!value) return nullptr;
  return line.bytes || line.count ? Json(static_cast<std::int64_t>(*value)) : Json(*value);
}

Json as_json(const RunSummary& a, const RunSummary& b, const std::vector<Line>& lines) {
  Json json = json_result("compare");
  json["a"] = a.path;
  json["b"] = b.path;
  json["step_ms_source"] = {{"a", a.step_ms_source}, {"b", b.step_ms_source}};
  json["settings"] = Json::object();
  for (const auto& choice : changed_choices(a, b))
    json["settings"][choice.key] = {{"a", Json::parse(choice.a)}, {"b", Json::parse(choice.b)}};
  for (const Line& line : lines)
    json[line.section][line.name] = {{"a", json_value(line.a, line)}, {"b", json_value(line.b, line)}};
  return json;
}

Result<int> compare(const Options& options, Console& console) {
  const auto a = summarise(options.a);
  if (!a) return tl::unexpected(a.error());
  const auto b = summarise(options.b);
  if (!b) return tl::unexpected(b.error());
  const std::vector<Line> lines = compare_lines(*a, *b);
  if (options.json)
    print_json(console.out, as_json(*a, *b, lines));
  else
    print_tables(console, *a, *b, lines);
  const bool differs = !changed_choices(*a, *b).empty() ||
                       std::any_of(lines.begin(), lines.end(), [](const Line& line) { return line.a != line.b; });
  return options.exit_code && differs ? kDiffers : kDone;
}

}  // namespace

Action add_compare(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("a", options->a, "a run store")->required()->type_name("A");
  app.add_option("b", options->b, "another")->required()->type_name("B");
  app.add_flag("--json", options->json, "as JSON");
  app.add_flag("--exit-code", options->exit_code, "exit with 13 where anything differs");
  return [options](Console& console) { return compare(*options, console); };
}

}  // namespace foreshard::cli
