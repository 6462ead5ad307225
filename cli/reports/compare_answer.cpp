#include "cli/reports/compare_answer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/units.hpp"

namespace foreshard::cli {
namespace {

/// Causes that account for less of all differences are left to the table.
constexpr double kLeastShare = 0.05;
constexpr double kLeastMs = 0.005;  // 0.00 as it is printed

std::string causes_of(const Comparison& comparison) {
  std::vector<std::pair<TimeCause, Nanoseconds>> causes;
  for (const BreakdownRow& row : comparison.breakdown) {
    const auto at = std::find_if(causes.begin(), causes.end(), [&](const auto& c) { return c.first == row.cause; });
    if (at == causes.end())
      causes.emplace_back(row.cause, row.b - row.a);
    else
      at->second += row.b - row.a;
  }
  double all = 0;
  for (const auto& [cause, time] : causes) all += std::abs(time.ms());
  std::stable_sort(causes.begin(), causes.end(),
                   [](const auto& x, const auto& y) { return std::abs(x.second.count) > std::abs(y.second.count); });
  std::string text;
  for (const auto& [cause, time] : causes)
    if (std::abs(time.ms()) >= kLeastMs && std::abs(time.ms()) >= kLeastShare * all)
      text += fmt::format("{}{} {:+.2f} ms", text.empty() ? "" : ", ", cause_title(cause), time.ms());
  return text;
}

/// The steps on the timelines are not as long as those that are reported: their causes say little. Empty: they are.
std::string unlike(const CompareReport& report) {
  if (report.steps_differ) return "why is not known, as recorded steps differ and one of each run is compared (--step)";
  const auto share = [](const std::optional<TimedStep>& step) {
    if (!step || step->reported.count <= 0) return 0.0;
    return std::abs((step->end - step->begin).ms() / step->reported.ms() - 1);
  };
  constexpr double kAlike = 0.1;
  const double most = std::max(share(report.comparison.a.time), share(report.comparison.b.time));
  if (most <= kAlike) return {};
  return fmt::format("why is not known well, as a profiled step is {:.0f} % off the measured one", most * 100);
}

std::string step_line(const CompareReport& report) {
  const double a = *report.a.step_ms;
  const double b = *report.b.step_ms;
  const std::string doubt = unlike(report);
  const std::string causes = doubt.empty() ? causes_of(report.comparison) : doubt;
  const std::string why = causes.empty() ? std::string() : ": " + causes;
  if (std::abs(b - a) < kLeastMs) return fmt::format("B takes as long as A, {:.2f} ms a step{}", b, why);
  return fmt::format("B takes {:.2f} ms a step, {:.2f} ms ({:.1f} %) {} than A{}", b, std::abs(b - a),
                     std::abs(b / a - 1) * 100, b < a ? "less" : "more", why);
}

std::string memory_line(Bytes a, Bytes b) {
  if (a == b) return fmt::format("its peak of reserved memory is the same, {}", format_bytes(b));
  const Bytes difference = a < b ? b - a : a - b;
  return fmt::format("its peak of reserved memory is {}, {} ({:.1f} %) {}", format_bytes(b), format_bytes(difference),
                     static_cast<double>(difference) / static_cast<double>(a) * 100, b < a ? "less" : "more");
}

}  // namespace

std::string cause_title(TimeCause cause) {
  std::string text(name(cause));
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

std::vector<std::string> compare_answer(const CompareReport& report) {
  std::vector<std::string> lines;
  if (!report.different_models.empty())
    lines.push_back(fmt::format("A and B are different models ({}): what differs is theirs as well as the settings'",
                                report.different_models));
  if (report.a.step_ms && report.b.step_ms && *report.a.step_ms > 0) lines.push_back(step_line(report));
  if (report.a.peaks && report.b.peaks && report.a.peaks->reserved > 0)
    lines.push_back(memory_line(report.a.peaks->reserved, report.b.peaks->reserved));
  return lines;
}

}  // namespace foreshard::cli
