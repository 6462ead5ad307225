#include "cli/reports/time_answer.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/reports/as_it_is.hpp"
#include "cli/reports/beside_report.hpp"
#include "cli/reports/flapping_report.hpp"
#include "cli/reports/no_remedies.hpp"
#include "cli/reports/run_summary.hpp"
#include "cli/reports/stored_trials.hpp"
#include "cli/reports/trial_report.hpp"
#include "core/explain_time/time_words.hpp"
#include "core/explain_time/waited_kinds.hpp"
#include "core/run/plan_results.hpp"
#include "core/run/rank_shapes.hpp"
#include "core/run/step_shapes.hpp"
#include "core/run/step_title.hpp"
#include "core/straggler/straggler_text.hpp"

namespace foreshard::cli {
namespace {

/// Of the step measured without the profiler. Of 32 reference recordings (PyTorch 2.11, 4 and 8 H200; median of the
/// unprofiled steps without warm-up) those that the GPU bounds take 0.980 to 1.044 times as long, those whose host the
/// profiler slows 1.109 and more: tests/reference holds both bounds.
constexpr double kSlowed = 1.05;

/// Of a recording: that the step is a profiled one, and what one without the profiler takes; of steps that differ of
/// which size it is. Else empty.
std::string which_step(const TimeReport& report) {
  const StepShapes shapes(report.run);
  const bool recorded = report.run.info.kind == RunKind::imported;
  if (shapes.differ())
    return fmt::format("this step is {}of {}; ", recorded ? "a profiled one, " : "",
                       shapes.words_of(report.time.recording, report.time.step));
  if (!recorded) return {};
  const std::optional<Measured>& measured = report.run.measured;
  const double without = measured ? measured->steady_ms() : 0;
  if (without <= 0) return "this step is a profiled one, and none was measured without the profiler; ";
  const double with = report.time.length().ms();
  if (with > without)
    return fmt::format("the profiler slowed this step to {:.2f} ms ({:.2f} ms without it); ", with, without);
  return fmt::format("this step is a profiled one of {:.2f} ms ({:.2f} ms without the profiler); ", with, without);
}

/// Of a plan "the step is 41.35 ms (14.9 %) longer because of rank 5's GPU; ", as the plan has it; empty: no rank makes
/// it so.
std::string slower_words(const TimeReport& report) {
  const std::string words = slower_ranks_words(report.run);
  if (words.empty()) return {};
  return fmt::format("{} {}; ", StepShapes(report.run).differ() ? "the mean step is" : "the step is", words);
}

/// Of a recording "; the step waits for rank 5, which is late", or which has more work: of a rank that is not the shown
/// one; empty: none is, or it is a link that holds it up.
std::string late_words(const TimeReport& report) {
  if (report.run.info.kind == RunKind::planned) return {};
  if (!report.stragglers || !report.stragglers->late || report.stragglers->late->collectives) return {};
  const std::uint32_t late = report.stragglers->late->rank;
  if (report.run.ranks.empty() || late == report.run.ranks.front().rank) return {};
  return fmt::format("; the step waits for rank {}, which {}: collectives stand until it comes", late,
                     report.stragglers->late->more_work ? "has more work" : "is late");
}

/// "rank 1 was late", "ranks 1–2 had more work": of a recording with a late rank.
std::string late_without_it(const Run& run) {
  const auto more = late_with_more(run.measured, rank_shapes(run), run.settings);
  return more.empty() ? fmt::format("rank {} was late", run.measured->late_rank) : ranks_words(more) + " had more work";
}

std::vector<std::string> sentences(const TimeReport& report) {
  if (!report.clean)
    return {which_step(report) + slower_words(report) + time_headline(report.run, report.time) + late_words(report)};
  const CleanStep& clean = *report.clean;
  const int late = report.run.measured ? report.run.measured->late_rank : -1;
  std::vector<std::string> out{fmt::format(
      "the profiled step takes {:.1f} times as long as one without the profiler ({:.2f} ms, {:.2f} ms): what its "
      "timeline shows of the host{}",
      report.time.length().ms() / clean.ms, report.time.length().ms(), clean.ms,
      late < 0 ? " and of waits for ranks is the profiler's"
               : fmt::format(" is the profiler's; {} without it too", late_without_it(report.run)))};
  if (const std::string binds = cpu_optimizer_clause(diagnosed_run(report), diagnosed_time(report)); !binds.empty())
    out.front() = fmt::format("{}; {}", binds, out.front());
  if (clean.time && late >= 0)
    out.push_back(
        fmt::format("{}, as planned: {}", capitalised(as_it_is(report.run)), time_headline(clean.run, *clean.time)));
  else if (clean.time)
    out.push_back("Without it, as planned: " + time_headline(clean.run, *clean.time));
  else if (clean.no_plan == kNoRemedies)
    out.push_back(
        fmt::format("The plan of a step without it ({:.2f} ms) says why; {} leaves it out", clean.ms, kNoRemedies));
  else
    out.push_back(
        fmt::format("Why a step without it takes {:.2f} ms cannot be said from this recording ({}): record a trace "
                    "without with_stack, record_shapes and profile_memory",
                    clean.ms, clean.no_plan));
  return out;
}

/// Of experts over ranks: as the plan has it; of a recording how long the compute stream waits for their exchanges.
std::string experts_line(const TimeReport& report) {
  const std::uint32_t over = report.run.settings.expert_parallel;
  if (over == 1) return {};
  if (std::string planned = plan_text(report.run, "experts", "sentence"); !planned.empty()) return planned;
  Nanoseconds sum;
  for (const WaitedKind& one : waited_kinds(report.run, report.time))
    if (one.kind == CollectiveKind::all_to_all) sum += one.time;
  return fmt::format("experts over {} ranks (expert_parallel); exposed all-to-all {:.2f} ms ({:.1f} % of the step)",
                     over, sum.ms(), 100 * sum.ms() / report.time.length().ms());
}

}  // namespace

std::optional<double> clean_step_ms(const Run& run, const TimeExplanation& time) {
  if (run.info.kind != RunKind::imported || !run.measured || run.measured->cycle > 1) return std::nullopt;
  const double clean = run.measured->steady_ms();
  if (clean <= 0 || time.length().ms() < kSlowed * clean) return std::nullopt;
  return clean;
}

std::vector<std::string> time_answer(const TimeReport& report) {
  std::vector<std::string> lines = plan_end(report.run);
  const Json flapping = stored_flapping(report.run);
  if (lines.empty() && flapping.is_object()) lines.push_back(flapping.value("sentence", std::string()));
  const auto trials = stored_trials(report.run);
  const bool told = trials && !trials->sentence.empty();
  const JobOptions job = job_options(report.run.results);
  const bool drawn = find_option(job, "--lengths") != nullptr;
  if (drawn && told) lines.push_back(trials->sentence);
  if (!told && (drawn || find_option(job, "--jitter") != nullptr))
    for (std::string& line : not_in_run_lines(report.run)) lines.push_back(std::move(line));
  std::vector<std::string> of_step = sentences(report);
  const std::string when =
      flapping.is_object() ? std::string(kLinksUp) : if_longest(drawn ? report.run.settings.seq.value_or(0) : 0);
  of_step.front() = fmt::format("{}{}, {}: {}", when, report.run.info.name,
                                step_title(report.run, report.time.recording, report.time.step), of_step.front());
  lines.insert(lines.end(), of_step.begin(), of_step.end());
  if (std::string experts = experts_line(report); !experts.empty()) lines.push_back(std::move(experts));
  if (std::string ranks = plan_text(report.run, "ranks", "sentence"); !ranks.empty()) lines.push_back(std::move(ranks));
  if (!drawn && told) lines.push_back(trials->sentence);
  if (const Json beside = stored_beside(report.run); beside.is_object())
    lines.push_back(beside.value("sentence", std::string()));
  return lines;
}

std::string answer_text(const TimeReport& report) {
  std::string text;
  for (const std::string& sentence : sentences(report)) text += (text.empty() ? "" : ". ") + sentence;
  return text;
}

const Run& diagnosed_run(const TimeReport& report) {
  return report.clean && report.clean->time ? report.clean->run : report.run;
}

const TimeExplanation& diagnosed_time(const TimeReport& report) {
  return report.clean && report.clean->time ? *report.clean->time : report.time;
}

}  // namespace foreshard::cli
