#include "cli/reports/compare_answer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/add_up.hpp"
#include "core/base/units.hpp"

namespace foreshard::cli {
namespace {

constexpr double kLeastMs = 0.005;  // 0.00 as it is printed

bool shown(Nanoseconds time) {
  return std::abs(time.ms()) >= kLeastMs;
}

bool shown(const StepPart& part) {
  return shown(part.difference) || shown(part.contention) ||
         std::any_of(part.parts.begin(), part.parts.end(), [](const StepPart& p) { return shown(p); });
}

/// "compute -1.69 ms (isolated +1.42 ms, kernel contention -3.11 ms)".
std::string part_text(const StepPart& part) {
  std::string text = fmt::format("{} {:+.2f} ms", part.name, part.difference.ms());
  if (shown(part.contention))
    text += fmt::format(" (isolated {:+.2f} ms, kernel contention {:+.2f} ms)",
                        (part.difference - part.contention).ms(), part.contention.ms());
  std::string parts;
  for (const StepPart& of : part.parts)
    if (shown(of)) parts += (parts.empty() ? "" : ", ") + fmt::format("{} {:+.2f} ms", of.name, of.difference.ms());
  return parts.empty() ? text : fmt::format("{} ({})", text, parts);
}

std::string causes_of(const Comparison& comparison) {
  std::string text;
  for (const StepPart& part : step_parts(comparison))
    if (shown(part)) text += (text.empty() ? "" : ", ") + part_text(part);
  return text;
}

/// The parts of `rows` by the words of `plan`, the largest first.
std::vector<StepPart> parts_of(const std::vector<BreakdownRow>& rows) {
  const auto difference = [&](TimeCause cause) {
    const BreakdownRow sum = total(rows, cause);
    return sum.b - sum.a;
  };
  const Nanoseconds contention = difference(TimeCause::kernel_contention);
  std::vector<StepPart> parts{{"compute", difference(TimeCause::isolated_compute) + contention, contention}};
  for (const TimeCause cause :
       {TimeCause::exposed_communication, TimeCause::host, TimeCause::other, TimeCause::untraced})
    parts.push_back({cause_title(cause), difference(cause), {}});
  std::stable_sort(parts.begin(), parts.end(), [](const StepPart& x, const StepPart& y) {
    return std::abs(x.difference.count) > std::abs(y.difference.count);
  });
  return parts;
}

/// The steps on the timelines are not as long as those that are reported: their causes say little. Empty: they are.
std::string unlike(const CompareReport& report) {
  if (report.steps_differ) return "why is not known, as recorded steps differ and one of each run is compared (--step)";
  const auto share = [](const std::optional<TimedStep>& step) {
    if (!step || step->reported.count <= 0) return 0.0;
    return std::abs((step->end - step->begin).ms() / step->reported.ms() - 1);
  };
  constexpr double kAlike = 0.1;
  const Comparison& both = report.comparison;  // the model's causes are of a step without the profiler
  const double most = std::max(share(both.model && report.model_of_a ? both.model : both.a.time),
                               share(both.model && !report.model_of_a ? both.model : both.b.time));
  if (most <= kAlike) return {};
  return fmt::format("why is not known well, as a profiled step is {:.0f} % off the measured one", most * 100);
}

std::string step_line(const CompareReport& report) {
  const double a = *report.a.step_ms;
  const double b = *report.b.step_ms;
  const std::string doubt = unlike(report);
  const std::string causes = doubt.empty() ? causes_of(report.comparison) : doubt;
  const std::string why = causes.empty() ? std::string() : ": " + causes;
  const double difference = printed_difference(b, a, 2);
  if (difference == 0) return fmt::format("B takes as long as A, {:.2f} ms a step{}", b, why);
  return fmt::format("B takes {:.2f} ms a step, {:.2f} ms ({:.1f} %) {} than A{}", b, std::abs(difference),
                     std::abs(b / a - 1) * 100, b < a ? "less" : "more", why);
}

/// What of the causes is the model's, and not the settings'; empty: no recording is held against a plan, or the causes
/// say it.
std::string bias_line(const CompareReport& report) {
  if (report.comparison.breakdown.empty()) return {};
  if (report.is_own_plan)
    return fmt::format("{} is the plan of {} at its own settings: what differs is the model's bias, by cause",
                       report.a.info.kind == RunKind::planned ? "A" : "B",
                       report.a.info.kind == RunKind::planned ? "B" : "A");
  if (report.model_unknown.empty()) return {};
  return fmt::format(
      "the model's bias is among these causes and not told apart, as {}: for what the settings change, plan both from "
      "one source and compare the two plans",
      report.model_unknown);
}

/// Of plans whose ranks differ otherwise: what that costs each. The causes are of one rank alone, whose compute is
/// slower and whose collectives are longer where they stand and wait for another.
std::vector<std::string> ranks_lines(const CompareReport& report) {
  std::vector<std::string> lines;
  if (report.a.ranks == report.b.ranks) return lines;
  for (const auto& [side, letter] : {std::pair(&report.a, 'A'), std::pair(&report.b, 'B')})
    if (!side->ranks_cost.empty())
      lines.push_back(
          fmt::format("{}: {}; its causes are rank {}'s: collectives that stand until those come count as exposed "
                      "communication, as kernel contention and, beside kernels that were never seen alone, as isolated "
                      "compute",
                      letter, side->ranks_cost, side->told_rank));
  return lines;
}

std::string memory_line(Bytes a, Bytes b) {
  if (a == b) return fmt::format("its peak of reserved memory is the same, {}", format_bytes(b));
  const Bytes difference = printed_difference(a, b);
  return fmt::format("its peak of reserved memory is {}, {} ({:.1f} %) {}", format_bytes(b), format_bytes(difference),
                     static_cast<double>(b < a ? a - b : b - a) / static_cast<double>(a) * 100,
                     b < a ? "less" : "more");
}

}  // namespace

std::vector<StepPart> step_parts(const Comparison& comparison) {
  if (comparison.breakdown.empty()) return {};
  std::vector<StepPart> parts = parts_of(comparison.breakdown);
  if (comparison.bias.empty()) return parts;
  const BreakdownRow bias = total(comparison.bias);
  parts.push_back({cause_title(TimeCause::model_bias), bias.b - bias.a, {}, parts_of(comparison.bias)});
  return parts;
}

std::string cause_title(TimeCause cause) {
  if (cause == TimeCause::model_bias) return "model's bias";
  std::string text(name(cause));
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

std::vector<std::string> compare_answer(const CompareReport& report) {
  std::vector<std::string> lines;
  if (!report.different_models.empty())
    lines.push_back(fmt::format("A and B are different models ({}): what differs is theirs as well as the settings'",
                                report.different_models));
  for (const auto& [side, letter] : {std::pair(&report.a, 'A'), std::pair(&report.b, 'B')})
    if (!side->ends.empty())
      lines.push_back(fmt::format("{} {}", letter, side->ends.front()));
    else if (!side->failure.empty())
      lines.push_back(fmt::format("{} {}: it has no step time{}", letter, side->failure,
                                  side->peaks ? ", and its memory is that until then" : ""));
    else if (!side->no_time.empty())
      lines.push_back(fmt::format("{} has no step time: {}", letter, side->no_time));
  if (report.hangs()) {
    lines.push_back("a job that hangs has no step: times and memory are not compared");
    return lines;
  }
  if (report.a.step_ms && report.b.step_ms && *report.a.step_ms > 0) lines.push_back(step_line(report));
  for (std::string& ranks : ranks_lines(report)) lines.push_back(std::move(ranks));
  if (std::string bias = bias_line(report); !bias.empty()) lines.push_back(std::move(bias));
  if (report.a.peaks && report.b.peaks && report.a.peaks->reserved > 0)
    lines.push_back(memory_line(report.a.peaks->reserved, report.b.peaks->reserved));
  return lines;
}

}  // namespace foreshard::cli
