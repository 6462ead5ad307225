#include "cli/reports/tune_reason.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/units.hpp"
#include "sim/sweep/candidates.hpp"

namespace foreshard::cli {
namespace {

using sim::SweepPoint;

/// Of a step that nothing shortens.
std::string why_no_faster(const SweepPoint& best) {
  const LongestFloor longest = longest_floor(best.floor);
  std::string out = fmt::format("{} alone {} {:.1f} % of the step", longest.what,
                                longest.ms == best.floor.links_ms ? "fill" : "fills", 100 * longest.ms / best.step_ms);
  if (best.floor.links_ms <= 0) return out + ", and there are no collectives";
  if (best.exposed_communication_ms <= 0) return out + ", and no communication is exposed";
  return out + fmt::format(", and no move shortens its {} of exposed communication",
                           milliseconds(best.exposed_communication_ms));
}

/// Of what nothing fits: the least, how much is short, and what most of it is. Or it fits, and has no time.
std::string why_nothing_fits(const TuneReport& report, const sim::PlannedPoint& least) {
  std::string most;
  if (const auto memory = least.plan ? memory_table(*least.plan) : std::nullopt; memory && !memory->rows.empty())
    most = fmt::format(" ({} of it {})", format_bytes(memory->rows.front().bytes), memory->rows.front().what);
  const std::string changes = short_changes(changes_of_least(report));
  const std::string takes = fmt::format("{}{}, {}", format_bytes(least.point.most_reserved), most,
                                        changes.empty() ? "as asked for" : "with " + changes);
  if (!only_without_time(report))
    return fmt::format("memory is {} short: of what was tried the least takes {}", format_bytes(short_of_least(report)),
                       takes);
  const bool says = least.plan && !least.plan->time_unknown.empty();
  return fmt::format("the least takes {}, and its time is not known{}", takes,
                     says ? ": " + least.plan->time_unknown.front() : std::string());
}

}  // namespace

LongestFloor longest_floor(const sim::StepFloor& floor) {
  const LongestFloor parts[] = {
      {floor.compute_ms, "the compute stream"}, {floor.links_ms, "the collectives"}, {floor.host_ms, "the host"}};
  return *std::max_element(std::begin(parts), std::end(parts),
                           [](const LongestFloor& a, const LongestFloor& b) { return a.ms < b.ms; });
}

std::string short_changes(const std::string& options) {
  std::string out;
  for (std::size_t from = 0; from < options.size();) {
    const std::size_t open = options.find("'{", from);
    const std::size_t close = open == std::string::npos ? open : options.find("}'", open);
    if (close == std::string::npos) return out + options.substr(from);
    const Json by_unit = Json::parse(options.substr(open + 1, close - open), nullptr, false);
    std::size_t units = by_unit.size();
    for (const char* pass : {"forward", "backward"})  // prefetch lists: units that have one, of each pass
      if (by_unit.contains(pass) && by_unit[pass].is_object()) units += by_unit[pass].size() - 1;
    out += options.substr(from, open - from) + fmt::format("<{} {}>", units, units == 1 ? "unit" : "units");
    from = close + 2;
  }
  return out;
}

std::string changes_of_least(const TuneReport& report) {
  if (!report.result.least) return {};
  return sim::setting_text(report.result.start.point.settings, report.result.least->point.settings);
}

Bytes short_of_least(const TuneReport& report) {
  if (!report.result.least) return 0;
  const Bytes taken = report.result.least->point.most_reserved;
  return taken - std::min(taken, report.result.most_reserved);
}

bool only_without_time(const TuneReport& report) {
  const sim::TuneResult& result = report.result;
  return !result.best && result.least && result.least->point.state == SweepPoint::State::ran &&
         !result.least->point.has_time && short_of_least(report) == 0;
}

std::string reason_of(const TuneReport& report) {
  const sim::TuneResult& result = report.result;
  if (!result.best) return result.least ? why_nothing_fits(report, *result.least) : std::string();
  const SweepPoint& best = result.best->point;
  const bool is_start = best.settings == result.start.point.settings;
  return is_start && result.tried > 1 && best.step_ms > 0 ? why_no_faster(best) : std::string();
}

}  // namespace foreshard::cli
