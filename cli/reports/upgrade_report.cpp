#include "cli/reports/upgrade_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/units.hpp"
#include "sim/predict/bound_by.hpp"

namespace foreshard::cli {
namespace {

/// "+116 MiB", "±0".
std::string signed_bytes(std::int64_t change) {
  if (change == 0) return "±0";
  return (change < 0 ? "-" : "+") + format_bytes(static_cast<Bytes>(std::abs(change)));
}

/// What moves, by the words of torch.cuda.memory_stats.
std::string words(const sim::VersionChange& change, bool has_time) {
  std::vector<std::string> parts;
  const std::pair<const char*, std::int64_t> bytes[] = {{"requested", change.requested},
                                                        {"allocated", change.allocated},
                                                        {"active", change.active},
                                                        {"reserved", change.reserved}};
  for (const auto& [name, by] : bytes)
    if (by != 0) parts.push_back(fmt::format("{} {}", name, signed_bytes(by)));
  if (has_time && std::abs(change.step_ms) >= sim::kShownMs)
    parts.push_back(fmt::format("step {:+.2f} ms", change.step_ms));
  return parts.empty() ? std::string("nothing moves") : fmt::format("{}", fmt::join(parts, ", "));
}

/// Behind bytes that are no more than such ties are known to.
std::string tie_words() {
  return fmt::format(" (within what is known of ties between equal blocks, ± {:.0f} %)", sim::kInventedTies * 100);
}

std::string names(const std::vector<const VersionRule*>& rules) {
  std::vector<std::string_view> out;
  for (const VersionRule* rule : rules) out.push_back(rule->name);
  return fmt::format("{}", fmt::join(out, ", "));
}

Json change_json(const sim::VersionChange& change, bool has_time) {
  return {{"requested_bytes", change.requested},
          {"allocated_bytes", change.allocated},
          {"active_bytes", change.active},
          {"reserved_bytes", change.reserved},
          {"step_ms", has_time ? Json(change.step_ms) : Json(nullptr)}};
}

Json names_json(const std::vector<const VersionRule*>& rules) {
  Json out = Json::array();
  for (const VersionRule* rule : rules) out.push_back(rule->name);
  return out;
}

}  // namespace

std::vector<std::string> upgrade_lines(const sim::Upgrade& u) {
  std::vector<std::string> lines{
      fmt::format("PyTorch {} -> {}: {}; reserved {} -> {}{}", u.from, u.to, words(u.change, u.has_time),
                  format_bytes(u.before.reserved), format_bytes(u.after.reserved),
                  u.has_time ? fmt::format(", step {:.2f} -> {:.2f} ms", u.before_ms, u.after_ms) : std::string())};
  for (const sim::MovedByRule& moved : u.rules)
    lines.push_back(fmt::format("  {}: {}{}", moved.rule->name, words(moved.change, u.has_time),
                                moved.within_ties ? tie_words() : std::string()));
  if (!u.unmoved.empty()) lines.push_back("  moves nothing here: " + names(u.unmoved));
  if (u.recorded)
    lines.push_back(
        fmt::format("  the recording's own plan has reserved {}{}: it follows when blocks came back there, which no "
                    "other version can",
                    format_bytes(u.recorded->peaks.reserved),
                    u.has_time ? fmt::format(", step {:.2f} ms", u.recorded->step_ms) : std::string()));
  return lines;
}

Json upgrade_json(const sim::Upgrade& u) {
  Json json = {{"from", u.from}, {"to", u.to}};
  json["change"] = change_json(u.change, u.has_time);
  json["reserved_bytes_before"] = u.before.reserved;
  json["reserved_bytes_after"] = u.after.reserved;
  json["step_ms_before"] = u.has_time ? Json(u.before_ms) : Json(nullptr);
  json["step_ms_after"] = u.has_time ? Json(u.after_ms) : Json(nullptr);
  json["rules"] = Json::array();
  for (const sim::MovedByRule& moved : u.rules) {
    Json rule = {{"rule", moved.rule->name}, {"within_ties", moved.within_ties}};
    rule.update(change_json(moved.change, u.has_time));
    json["rules"].push_back(std::move(rule));
  }
  json["unmoved"] = names_json(u.unmoved);
  json["recorded_plan"] = u.recorded ? Json{{"reserved_bytes", u.recorded->peaks.reserved},
                                            {"step_ms", u.has_time ? Json(u.recorded->step_ms) : Json(nullptr)}}
                                     : Json(nullptr);
  json["not_planned"] = names_json(u.not_planned);
  return json;
}

}  // namespace foreshard::cli
