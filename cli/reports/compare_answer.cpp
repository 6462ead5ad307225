#include "cli/reports/compare_answer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cli/reports/phase_table.hpp"
#include "cli/reports/trial_report.hpp"
#include "core/base/add_up.hpp"
#include "core/base/units.hpp"

namespace foreshard::cli {
namespace {

bool shown(const StepPart& part) {
  return part.printed_ms != 0 || part.printed_contention_ms != 0 ||
         std::any_of(part.parts.begin(), part.parts.end(), [](const StepPart& p) { return shown(p); });
}

/// "compute -1.69 ms (isolated +1.42 ms, kernel contention -3.11 ms)".
std::string part_text(const StepPart& part) {
  std::string text = fmt::format("{} {:+.2f} ms", part.name, part.printed_ms);
  if (part.printed_contention_ms != 0)
    text += fmt::format(" (isolated {:+.2f} ms, kernel contention {:+.2f} ms)",
                        printed_difference(part.printed_ms, part.printed_contention_ms, 2), part.printed_contention_ms);
  std::string parts;
  for (const StepPart& of : part.parts)
    if (of.printed_ms != 0) parts += (parts.empty() ? "" : ", ") + fmt::format("{} {:+.2f} ms", of.name, of.printed_ms);
  return parts.empty() ? text : fmt::format("{} ({})", text, parts);
}

std::string causes_of(const Comparison& comparison) {
  std::string text;
  for (const StepPart& part : step_parts(comparison))
    if (shown(part)) text += (text.empty() ? "" : ", ") + part_text(part);
  return text;
}

/// One side of `rows` by the words of `plan`, without the model's bias.
struct OneStep {
  PhaseTime time;
  Nanoseconds untraced;
};

OneStep step_of(const std::vector<BreakdownRow>& rows, Nanoseconds BreakdownRow::*side) {
  const auto sum = [&](TimeCause cause) { return total(rows, cause).*side; };
  OneStep step;
  step.time.contention = sum(TimeCause::kernel_contention);
  step.time.compute = sum(TimeCause::isolated_compute) + step.time.contention;
  step.time.exposed_communication = sum(TimeCause::exposed_communication);
  step.time.host = sum(TimeCause::host);
  step.time.other = sum(TimeCause::other);
  step.untraced = sum(TimeCause::untraced);
  return step;
}

/// The parts of `rows` by the words of `plan`, the largest first.
std::vector<StepPart> parts_of(const std::vector<BreakdownRow>& rows) {
  const OneStep a = step_of(rows, &BreakdownRow::a), b = step_of(rows, &BreakdownRow::b);
  const Nanoseconds contention = b.time.contention - a.time.contention;
  std::vector<StepPart> parts{
      {"compute", b.time.compute - a.time.compute, contention},
      {cause_title(TimeCause::exposed_communication), b.time.exposed_communication - a.time.exposed_communication, {}},
      {cause_title(TimeCause::host), b.time.host - a.time.host, {}},
      {cause_title(TimeCause::other), b.time.other - a.time.other, {}},
      {cause_title(TimeCause::untraced), b.untraced - a.untraced, {}}};
  const PrintedCauses of_a = printed_causes(rows, &BreakdownRow::a), of_b = printed_causes(rows, &BreakdownRow::b);
  const auto printed = [&](TimeCause cause) {
    const auto i = static_cast<std::size_t>(cause);
    return as_printed(of_b[i] - of_a[i], 2);
  };
  parts[0].printed_contention_ms = printed(TimeCause::kernel_contention);
  parts[0].printed_ms = as_printed(printed(TimeCause::isolated_compute) + parts[0].printed_contention_ms, 2);
  for (std::size_t i = 1; i < parts.size(); ++i)  // behind compute's two in the order of causes
    parts[i].printed_ms = printed(static_cast<TimeCause>(i + 1));
  std::stable_sort(parts.begin(), parts.end(), [](const StepPart& x, const StepPart& y) {
    return std::abs(x.difference.count) > std::abs(y.difference.count);
  });
  return parts;
}

/// The timelines whose causes are laid side by side: of a recording's side its plan, where the causes are that's.
std::pair<const TimedStep*, const TimedStep*> timelines(const CompareReport& report) {
  const Comparison& both = report.comparison;
  const auto of = [](const std::optional<TimedStep>& step) { return step ? &*step : nullptr; };
  return {of(both.model && report.model_of_a ? both.model : both.a.time),
          of(both.model && !report.model_of_a ? both.model : both.b.time)};
}

/// The steps on the timelines are not as long as those that are reported: their causes say little. Empty: they are.
std::string unlike(const CompareReport& report) {
  const auto share = [](const TimedStep* step) {
    if (step == nullptr || step->reported.count <= 0) return 0.0;
    return std::abs((step->end - step->begin).ms() / step->reported.ms() - 1);
  };
  constexpr double kAlike = 0.1;
  const auto [a, b] = timelines(report);  // the model's causes are of a step without the profiler
  const double most = std::max(share(a), share(b));
  if (most <= kAlike) return {};
  return fmt::format("why is not known well, as a profiled step is {:.0f} % off the measured one", most * 100);
}

/// ": compute -1.69 ms, …", or why that is not said; empty: nothing shows.
std::string why_words(const CompareReport& report) {
  const std::string doubt = unlike(report);
  const std::string causes = doubt.empty() ? causes_of(report.comparison) : doubt;
  return causes.empty() ? std::string() : ": " + causes;
}

/// Where one step has more compute than the other of which it is not known whether collectives slow it: the parts of
/// compute may be otherwise by that. Else empty.
std::string contention_line(const CompareReport& report) {
  const auto [a, b] = timelines(report);
  if (a == nullptr || b == nullptr || causes_of(report.comparison).empty() || !unlike(report).empty()) return {};
  const Nanoseconds more{std::abs((b->contention_unknown - a->contention_unknown).count)};
  if (more < std::max(a->end - a->begin, b->end - b->begin).scaled(kWorthADoubt)) return {};
  return fmt::format(
      "of its isolated compute A has {:.2f} ms and B {:.2f} ms beside collectives, in kernels that were never seen "
      "isolated: how much of that is contention is not known",
      a->contention_unknown.ms(), b->contention_unknown.ms());
}

/// "0.37 ms (0.3 %) more than A"; "as long as A": no difference is printed.
std::string against(double a, double b, int decimals, const char* unit) {
  const double difference = printed_difference(b, a, decimals);
  if (difference == 0) return "as long as A";
  return fmt::format("{:.{}f} {} ({:.1f} %) {} than A", std::abs(difference), decimals, unit, std::abs(b / a - 1) * 100,
                     b < a ? "less" : "more");
}

const char* work_unit(const ComparedWork& work) {
  const auto is_token = [](const StepShape& shape) { return shape.seq > 1; };
  return std::any_of(work.a.mean.begin(), work.a.mean.end(), is_token) ? "token" : "sample";
}

/// "6144 and 8192 tokens a GPU".
std::string work_words(const ComparedWork& work) {
  return fmt::format("{:.0f} and {:.0f} {}s a GPU", work.a.work, work.b.work, work_unit(work));
}

/// " (± 0.42 ms)", how well a difference between two plans is known, and where that is more than it, that; empty: of
/// others than plans of one source, or where there is no difference.
std::string within_words(const CompareReport& report) {
  const auto planned = planned_difference(report);
  if (!planned || planned->difference == 0) return {};
  return fmt::format(
      " (± {:.{}f} {}{})", planned->within, planned->of_work ? 3 : 2, planned->of_work ? "us" : "ms",
      std::abs(planned->difference) <= planned->within ? ", which a measurement may not tell apart" : "");
}

/// "B takes 20.560 us a token, 0.500 us (2.5 %) more than A": of steps of different work.
std::string per_work(const ComparedWork& work, double a_ms, double b_ms) {
  const double a = 1e3 * a_ms / work.a.work, b = 1e3 * b_ms / work.b.work;
  return fmt::format("B takes {:.3f} us a {}, {}", b, work_unit(work), against(a, b, 3, "us"));
}

/// "B takes 9.00 ms a step, 1.00 ms (10.0 %) less than A": of steps of like work, or of work that is not known.
std::string like_step(double a, double b) {
  if (printed_difference(b, a, 2) == 0) return fmt::format("B takes as long as A, {:.2f} ms a step", b);
  return fmt::format("B takes {:.2f} ms a step, {}", b, against(a, b, 2, "ms"));
}

/// "; a token of those drawn: B takes 61.038 us a token, …": of plans that draw other ones.
std::string drawn_rates(const StoredTrials& a, const StoredTrials& b) {
  if (a.tokens_per_s_gpu <= 0 || b.tokens_per_s_gpu <= 0 || a.tokens_per_s_gpu == b.tokens_per_s_gpu) return {};
  const double of_a = 1e6 / a.tokens_per_s_gpu, of_b = 1e6 / b.tokens_per_s_gpu;
  return fmt::format("; of the tokens drawn {:.3f} us a token, {}", of_b, against(of_a, of_b, 3, "us"));
}

/// Of both runs' step times.
std::string mean_line(const ComparedWork& work, const std::string& within) {
  const double a = *work.a.mean_ms, b = *work.b.mean_ms;
  if (work.different())
    return fmt::format("A's step time, {:.2f} ms, and B's, {:.2f} ms, are of different work, {}: {}", a, b,
                       work_words(work), per_work(work, a, b) + within);
  if (work.a.mean.empty() || work.b.mean.empty())
    return fmt::format("A takes {:.2f} ms a step and B {:.2f} ms, means of steps whose sizes are not known", a, b);
  if (work.a.mean == work.b.mean)
    return fmt::format("in the mean of the same steps, of {}: {}{}", shape_words(work.a.mean), like_step(a, b), within);
  return fmt::format("in the mean of steps of {} in A and of {} in B, which have as many {}s: {}{}",
                     shape_words(work.a.mean), shape_words(work.b.mean), work_unit(work), like_step(a, b), within);
}

/// "; B is 41.35 ms (14.9 %) longer because of rank 5's GPU": of plans whose ranks differ otherwise.
std::string slower_words(const CompareReport& report) {
  if (report.a.ranks == report.b.ranks) return {};
  std::string out;
  for (const auto& [side, letter] : {std::pair(&report.a, 'A'), std::pair(&report.b, 'B')})
    if (!side->slower.empty()) out += fmt::format("; {} is {}", letter, side->slower);
  return out;
}

std::string time_place(const TimedStep& step, char run) {
  return fmt::format("step {} of {}{}", step.index, step.recording == Recording::trace ? "the trace of " : "", run);
}

/// Which of the two begin otherwise than the rest: "; both are a profiler's first, and begin with an idle GPU".
std::string idle_starts(const TimedStep& a, const TimedStep& b) {
  const auto first = [](const TimedStep& step) { return step.recording == Recording::trace && step.index == 0; };
  if (first(a) && first(b)) return "; both are a profiler's first, and begin with an idle GPU";
  if (!first(a) && !first(b)) return {};
  return fmt::format("; {}'s is a profiler's first, and begins with an idle GPU", first(a) ? 'A' : 'B');
}

/// Of runs whose steps differ, and a recording among them: what steps of the size of the two that are laid side by side
/// take without a profiler; else empty.
std::string size_line(const CompareReport& report) {
  const ComparedWork::Side &a = report.work.a, &b = report.work.b;
  const bool recorded = report.a.info.kind == RunKind::imported || report.b.info.kind == RunKind::imported;
  if (!recorded || !a.step.known() || a.step != b.step || !a.size_ms || !b.size_ms || *a.size_ms <= 0) return {};
  return fmt::format("steps of {}, measured without a profiler{}: {}", shape_words(a.step),
                     report.a.info.kind == report.b.info.kind ? "" : ", against the plan's",
                     like_step(*a.size_ms, *b.size_ms));
}

/// Of runs whose steps differ: of the two steps that are laid side by side.
std::string pair_line(const CompareReport& report) {
  const ComparedSide &a = report.comparison.a, &b = report.comparison.b;
  if (!a.time || !b.time) return {};
  const StepShape &of_a = report.work.a.step, &of_b = report.work.b.step;
  const std::string place_a = time_place(*a.time, 'A'), place_b = time_place(*b.time, 'B');
  if (of_a.known() && of_a == of_b)
    return fmt::format("of a step of {} ({}, {}{}): {}{}", shape_words(of_a), place_a, place_b,
                       idle_starts(*a.time, *b.time), like_step(*report.a.step_ms, *report.b.step_ms),
                       why_words(report));
  return fmt::format(
      "no two steps of the timelines are known to be of one size: {} is of {}, {} of {}, and what they differ by is "
      "not the settings' alone",
      place_a, shape_words(of_a), place_b, shape_words(of_b));
}

std::vector<std::string> step_lines(const CompareReport& report) {
  const ComparedWork& work = report.work;
  if (work.steps_differ) {
    std::vector<std::string> lines;
    if (work.a.mean_ms && work.b.mean_ms && *work.a.mean_ms > 0)
      lines.push_back(mean_line(work, within_words(report) + slower_words(report)));
    if (std::string size = size_line(report); !size.empty()) lines.push_back(std::move(size));
    if (std::string pair = pair_line(report); !pair.empty()) lines.push_back(std::move(pair));
    return lines;
  }
  if (!report.a.step_ms || !report.b.step_ms || *report.a.step_ms <= 0) return {};
  const double a = *report.a.step_ms, b = *report.b.step_ms;
  if (!work.different()) return {like_step(a, b) + within_words(report) + slower_words(report) + why_words(report)};
  std::vector<std::string> lines{fmt::format("A's step, {:.2f} ms, and B's, {:.2f} ms, are of different work, {}: {}",
                                             a, b, work_words(work),
                                             per_work(work, a, b) + within_words(report) + slower_words(report))};
  const double difference = printed_difference(b, a, 2);
  const std::string why = why_words(report);
  if (difference != 0 || !why.empty())
    lines.push_back(fmt::format("B's step less A's is {:+.2f} ms{}", difference, why));
  return lines;
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
      lines.push_back(fmt::format(
          "{}: {}; its causes are rank {}'s: collectives that stand until those come count as exposed "
          "communication, as kernel contention and, beside kernels that were never seen isolated, as isolated "
          "compute",
          letter, side->ranks_cost, side->told_rank));
  return lines;
}

/// Of plans with trials: what their steps take in these.
std::vector<std::string> trials_lines(const CompareReport& report) {
  std::vector<std::string> lines;
  const auto &a = report.a.trials, &b = report.b.trials;
  if (!a || !b) {
    for (const auto& [side, letter] : {std::pair(&a, 'A'), std::pair(&b, 'B')})
      if (*side && !(*side)->sentence.empty()) lines.push_back(fmt::format("{}: {}", letter, (*side)->sentence));
    return lines;
  }
  if (a->lengths && b->lengths)
    lines.push_back(
        fmt::format("in the mean of trials with drawn lengths, {:.2f} ms {} of A and {:.2f} ms {} of B: {}{}",
                    a->mean_ms, interval_words(a->low_ms, a->high_ms), b->mean_ms,
                    interval_words(b->low_ms, b->high_ms), like_step(a->mean_ms, b->mean_ms), drawn_rates(*a, *b)));
  lines.push_back(fmt::format("in the median of A's {} trials and B's {}: {}", a->trials, b->trials,
                              like_step(a->median_ms, b->median_ms)));
  return lines;
}

/// Of plans with drawn lengths what their processes come to reserve.
std::vector<std::string> drawn_memory_lines(const CompareReport& report) {
  std::vector<std::string> lines;
  for (const auto& [side, letter] : {std::pair(&report.a, 'A'), std::pair(&report.b, 'B')})
    if (side->drawn_memory)
      lines.push_back(
          fmt::format("{}: {} are reserved at most in {} steps whose lengths vary, in {} processes{}", letter,
                      format_bytes(side->drawn_memory->most), side->drawn_memory->steps, side->drawn_memory->processes,
                      side->drawn_memory->out_of_memory == 0
                          ? std::string()
                          : fmt::format(", of which {} run{} out of memory", side->drawn_memory->out_of_memory,
                                        side->drawn_memory->out_of_memory == 1 ? "s" : "")));
  return lines;
}

/// Of plans under record_stream what a longer run comes to reserve, where that is more than the peaks above.
std::vector<std::string> longer_run_lines(const CompareReport& report) {
  std::vector<std::string> lines;
  for (const auto& [side, letter] : {std::pair(&report.a, 'A'), std::pair(&report.b, 'B')})
    if (side->settled_reserved && side->peaks && *side->settled_reserved > side->peaks->reserved)
      lines.push_back(
          fmt::format("{}: a longer run comes to {} reserved, as its blocks wait for the GPU (record_stream)", letter,
                      format_bytes(*side->settled_reserved)));
  return lines;
}

/// Of steps that may be of several sizes: of which the peaks are; else empty.
std::string memory_steps(const ComparedWork& work) {
  if (!work.steps_differ) return {};
  const StepShape &a = work.a.memory, &b = work.b.memory;
  if (a == b && a.known()) return fmt::format(", in a step of {},", shape_words(a));
  return fmt::format(", in A of a step of {} and in B of {},", shape_words(a), shape_words(b));
}

std::string memory_line(const ComparedWork& work, Bytes a, Bytes b) {
  const std::string what = "its peak of reserved memory" + memory_steps(work);
  if (a == b) return fmt::format("{} is the same, {}", what, format_bytes(b));
  const Bytes difference = printed_difference(a, b);
  return fmt::format("{} is {}, {} ({:.1f} %) {}", what, format_bytes(b), format_bytes(difference),
                     static_cast<double>(b < a ? a - b : b - a) / static_cast<double>(a) * 100,
                     b < a ? "less" : "more");
}

}  // namespace

PrintedCauses printed_causes(const std::vector<BreakdownRow>& rows, Nanoseconds BreakdownRow::*side) {
  const OneStep step = step_of(rows, side);
  const std::vector<double> parts = printed_step_parts(step.time, step.time.sum() + step.untraced);
  PrintedCauses out{};
  const auto set = [&out](TimeCause cause, double value) { out[static_cast<std::size_t>(cause)] = value; };
  set(TimeCause::isolated_compute, printed_difference(parts[0], step.time.contention.ms(), 2));
  set(TimeCause::kernel_contention, as_printed(step.time.contention.ms(), 2));
  set(TimeCause::exposed_communication, parts[1]);
  set(TimeCause::host, parts[2]);
  set(TimeCause::other, parts[3]);
  set(TimeCause::untraced, parts[4]);
  set(TimeCause::model_bias, as_printed((total(rows, TimeCause::model_bias).*side).ms(), 2));
  return out;
}

std::vector<StepPart> step_parts(const Comparison& comparison) {
  if (comparison.breakdown.empty()) return {};
  std::vector<StepPart> parts = parts_of(comparison.breakdown);
  if (comparison.bias.empty()) return parts;
  const BreakdownRow bias = total(comparison.bias);
  parts.push_back({cause_title(TimeCause::model_bias),
                   bias.b - bias.a,
                   {},
                   printed_difference(bias.b.ms(), bias.a.ms(), 2),
                   0,
                   parts_of(comparison.bias)});
  return parts;
}

std::string not_in_run_line(const NotInRun& one) {
  return fmt::format("the plan {}: its step and peak are {}", one.plan, one.run);
}

std::string cause_title(TimeCause cause) {
  if (cause == TimeCause::model_bias) return "model's bias";
  std::string text(name(cause));
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

std::optional<PlannedDifference> planned_difference(const CompareReport& report) {
  const auto &a = report.work.steps_differ ? report.work.a.mean_ms : report.a.step_ms,
             &b = report.work.steps_differ ? report.work.b.mean_ms : report.b.step_ms;
  if (!report.within || !a || !b || *a <= 0) return std::nullopt;
  if (!report.work.different()) return PlannedDifference{*b - *a, *a * *report.within, false};
  const double of_a = 1e3 * *a / report.work.a.work, of_b = 1e3 * *b / report.work.b.work;
  return PlannedDifference{of_b - of_a, of_a * *report.within, true};
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
  for (const auto& [side, letter] : {std::pair(&report.a, 'A'), std::pair(&report.b, 'B')})
    for (const NotInRun& one : side->not_in_run) lines.push_back(fmt::format("{}: {}", letter, not_in_run_line(one)));
  for (std::string& line : step_lines(report)) lines.push_back(std::move(line));
  for (std::string& ranks : ranks_lines(report)) lines.push_back(std::move(ranks));
  for (std::string& trials : trials_lines(report)) lines.push_back(std::move(trials));
  if (std::string bias = bias_line(report); !bias.empty()) lines.push_back(std::move(bias));
  if (std::string unknown = contention_line(report); !unknown.empty()) lines.push_back(std::move(unknown));
  if (report.a.peaks && report.b.peaks && report.a.peaks->reserved > 0)
    lines.push_back(memory_line(report.work, report.a.peaks->reserved, report.b.peaks->reserved));
  for (std::string& longer : longer_run_lines(report)) lines.push_back(std::move(longer));
  for (std::string& drawn : drawn_memory_lines(report)) lines.push_back(std::move(drawn));
  return lines;
}

}  // namespace foreshard::cli
