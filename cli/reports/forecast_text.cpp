// The report of forecast for people.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "cli/reports/counted.hpp"
#include "cli/reports/forecast_report.hpp"
#include "cli/reports/indented.hpp"
#include "cli/reports/plan_command.hpp"
#include "cli/terminal/printable.hpp"
#include "core/base/units.hpp"

namespace foreshard::cli {
namespace {

using sim::SeedForecast;
using Align = Table::Align;

constexpr std::size_t kForecastRows = 12;    // of a table; --json has all
constexpr std::size_t kSeedsForShares = 20;  // from which on a twentieth of them is one

std::string lengths_line(const ForecastReport& report) {
  std::string text = fmt::format("{} steps of lengths {}", report.steps, report.lengths_text);
  if (report.lengths.drawn())
    return text + fmt::format(", drawn with seed{} {}{}", report.seeds.size() > 1 ? "s" : "", report.seeds.front().seed,
                              report.seeds.size() > 1 ? fmt::format(" to {}", report.seeds.back().seed) : "");
  if (report.lengths.size() < report.steps)
    text += fmt::format(" (its {} repeat {:.3g} times)", report.lengths.size(),
                        static_cast<double>(report.steps) / static_cast<double>(report.lengths.size()));
  return text;
}

std::string step_or_dash(bool any, std::size_t step) {
  return any ? std::to_string(step) : "-";
}

/// In ms below a second.
std::string time_words(double ms) {
  return ms < 1000 ? fmt::format("{:.0f} ms", ms) : fmt::format("{:.1f} s", ms / 1000);
}

void print_seeds(std::ostream& out, const ForecastReport& report) {
  Table table({{"seed", Align::right},
               {"last growth", Align::right},
               {"peak reserved", Align::right},
               {"peak allocated", Align::right},
               {"retries", Align::right},
               {"first retry", Align::right},
               {"steps giving back", Align::right},
               {"out of memory", Align::right}});
  const std::size_t shown = std::min(report.seeds.size(), kForecastRows);
  for (std::size_t i = 0; i < shown; ++i) {
    const SeedForecast& seed = report.seeds[i];
    table.row({std::to_string(seed.seed), step_or_dash(seed.last_growth().has_value(), seed.last_growth().value_or(0)),
               format_bytes_fixed(seed.peak_reserved()), format_bytes_fixed(seed.peak_allocated()),
               std::to_string(seed.num_alloc_retries()),
               step_or_dash(seed.first_retry().has_value(), seed.first_retry().value_or(0)),
               std::to_string(seed.steps_giving_back),
               step_or_dash(seed.out_of_memory.has_value(), seed.out_of_memory ? seed.out_of_memory->step : 0)});
  }
  out << '\n';
  table.print(out);
  if (shown < report.seeds.size()) out << fmt::format("and {} more; --json has all\n", report.seeds.size() - shown);
  if (report.seeds.size() < kSeedsForShares) return;
  out << fmt::format(
      "peak reserved of one seed in twenty is at most {}, of half of them {}, of all but one in twenty {}\n",
      format_bytes(peak_of_share(report, 0.05)), format_bytes(peak_of_share(report, 0.5)),
      format_bytes(peak_of_share(report, 0.95)));
}

void print_growth(std::ostream& out, const SeedForecast& seed) {
  if (seed.growth.empty()) return;
  out << "\nsteps that made reserved memory grow\n";
  Table table({{"step", Align::right},
               {"length", Align::right},
               {"reserved", Align::right},
               {"new segments", Align::right},
               {"of", Align::right},
               {"largest", Align::right},
               {"the largest one's request"}});
  const std::size_t shown = std::min(seed.growth.size(), kForecastRows);
  for (std::size_t i = 0; i < shown; ++i) {
    const sim::GrowthStep& step = seed.growth[i];
    table.row({std::to_string(step.step), std::to_string(step.length), format_bytes_fixed(step.reserved),
               std::to_string(step.segments), format_bytes_fixed(step.bytes), format_bytes_fixed(step.largest_segment),
               fmt::format("{} for {}", step.request, format_bytes(step.largest_request))});
  }
  table.print(out);
  if (shown < seed.growth.size()) out << fmt::format("and {} more; --json has all\n", seed.growth.size() - shown);
}

void print_retries(std::ostream& out, const SeedForecast& seed) {
  if (seed.retries.empty()) return;
  out << "\nsteps in which segments were given back for a request\n";
  Table table({{"step", Align::right},
               {"length", Align::right},
               {"retries", Align::right},
               {"cudaFree", Align::right},
               {"cudaMalloc", Align::right},
               {"driver", Align::right},
               {"the first request"}});
  const std::size_t shown = std::min(seed.retries.size(), kForecastRows);
  for (std::size_t i = 0; i < shown; ++i) {
    const sim::RetryStep& step = seed.retries[i];
    table.row({std::to_string(step.step), std::to_string(step.length), std::to_string(step.retries),
               std::to_string(step.released), std::to_string(step.made), time_words(step.driver.ms()),
               fmt::format("{} for {}{}", step.request, format_bytes(step.bytes), step.served ? "" : ", not served")});
  }
  table.print(out);
  if (shown < seed.retries.size()) out << fmt::format("and {} more; --json has all\n", seed.retries.size() - shown);
  out << fmt::format(
      "driver: what the calls take, {} in the whole run; a step gets longer by that, and by what the GPU idles "
      "while the host catches up (`foreshard plan` simulates both)\n",
      time_words(seed.driver_time.ms()));
}

void print_alone(std::ostream& out, const sim::LongestAlone& alone) {
  out << fmt::format("{} steps of length {} alone, in a process of their own, {}", alone.steps, alone.length,
                     alone.fits ? "find memory" : "run out of memory too");
  if (alone.fits && alone.num_alloc_retries > 0)
    out << fmt::format(", with {}", counted(alone.num_alloc_retries, "retry", "retries"));
  if (!alone.longest)
    out << "; so do those of every length of this run\n";
  else
    out << fmt::format("; the longest length of this run whose steps find it is {}\n", *alone.longest);
}

void print_failure(std::ostream& out, const ForecastReport& report, const SeedForecast& seed) {
  if (!seed.out_of_memory) return;
  const sim::FailedStep& failed = *seed.out_of_memory;
  const std::string where = failed.before_first ? std::string("before the first step")
                                                : fmt::format("in step {} (length {})", failed.step, failed.length);
  out << fmt::format("\nout of memory {}: {} asked for {} and found no segment of {}; {} were allocated, {} reserved\n",
                     where, in_line(failed.request), format_bytes(failed.report.requested),
                     format_bytes(failed.report.tried), format_bytes(failed.report.allocated),
                     format_bytes(failed.report.reserved));
  if (report.alone) print_alone(out, *report.alone);
}

std::string what_becomes(const sim::SeedsOutcome& over) {
  const bool several = over.seeds > 1;
  if (over.out_of_memory > 0) {
    const std::string when =
        over.before_first ? std::string("before the first step") : fmt::format("at step {}", over.lives_until);
    if (!several) return "out of memory " + when;
    return over.out_of_memory == 1
               ? fmt::format("1 of {} seeds runs out of memory, {}", over.seeds, when)
               : fmt::format("{} of {} seeds run out of memory, the first {}", over.out_of_memory, over.seeds, when);
  }
  if (over.first_retry)
    return fmt::format("{}{}, the first at step {}", several ? "up to " : "",
                       counted(over.num_alloc_retries, "retry", "retries"), *over.first_retry);
  return "no retries";
}

/// What it is for: of a run that dies how many steps it lives longer, of one that retries those, else bytes.
std::string saves_words(const sim::ForecastRemedy& remedy, const sim::SeedsOutcome& before) {
  if (before.out_of_memory > 0 && remedy.steps_more > 0)
    return counted(static_cast<std::int64_t>(remedy.steps_more), "step", "steps");
  if (before.out_of_memory > 0)
    return counted(static_cast<std::int64_t>(before.out_of_memory - remedy.over_all.out_of_memory), "seed", "seeds");
  if (before.num_alloc_retries > 0)
    return remedy.retries_less > 0
               ? fmt::format("{}, {}", counted(remedy.retries_less, "retry", "retries"), time_words(remedy.saved_ms))
               : "";
  return remedy.saving > 0 ? format_bytes(static_cast<Bytes>(remedy.saving)) : "";
}

/// By step: time as planned, and tokens.
std::string costs_words(const sim::ForecastRemedy& remedy) {
  std::string text = remedy.step_ms_more                      ? fmt::format("{:+.2f} ms a step", *remedy.step_ms_more)
                     : remedy.price == sim::RemedyPrice::none ? ""
                                                              : "time not known";
  if (remedy.more_tokens != 0)
    text += fmt::format("{}{:+.1f} % {}", text.empty() ? "" : ", ", remedy.more_tokens * 100,
                        remedy.price == sim::RemedyPrice::batch ? "samples" : "tokens");
  return text;
}

/// Those that were simulated on the same seeds, below the run as it is on these; nothing where there are none.
void print_remedy_table(std::ostream& out, const std::vector<sim::ForecastRemedy>& useful, bool alone,
                        const sim::SeedsOutcome& before) {
  Table table({{"setting"},
               {"peak reserved", Align::right},
               {"saves", Align::right},
               {"costs", Align::right},
               {"steps giving back", Align::right},
               {"cudaFree", Align::right},
               {"cudaMalloc", Align::right},
               {"driver", Align::right},
               {"what becomes of the run"}});
  const auto add = [&](const std::string& setting, const sim::SeedsOutcome& over, const std::string& saves,
                       const std::string& costs) {
    table.row({setting, format_bytes_fixed(over.peak_reserved), saves, costs, std::to_string(over.steps_giving_back),
               std::to_string(over.driver_frees), std::to_string(over.driver_allocations),
               over.driver_time.count > 0 ? time_words(over.driver_time.ms()) : "", what_becomes(over)});
  };
  add("as it is", before, "", "");
  for (const sim::ForecastRemedy& remedy : useful)
    if (remedy.alone == alone) add(remedy.setting, remedy.over_all, saves_words(remedy, before), costs_words(remedy));
  table.print(out);
  if (before.out_of_memory > 0)
    out << "saves: how many steps later the run ends, or how many seeds no longer end\n";
  else if (before.num_alloc_retries > 0)
    out << "saves: retries that no longer are, and what the driver's calls take less\n";
}

/// "on seed 4 alone", "on the first 512 of 10000 steps of seed 4 alone".
std::string alone_words(const ForecastReport& report, const sim::ForecastRemedies& remedies) {
  if (remedies.steps_tried >= report.steps) return fmt::format("on seed {} alone", remedies.seed);
  return fmt::format("on the first {} of {} steps{} alone", remedies.steps_tried, report.steps,
                     report.lengths.drawn() ? fmt::format(" of seed {}", remedies.seed) : std::string());
}

/// What was left out, and what what costs rests on.
void print_remedy_notes(std::ostream& out, const ForecastReport& report, const sim::ForecastRemedies& remedies) {
  if (remedies.steps_tried < report.steps)
    out << fmt::format(
        "each of {} lengths needs a program of its own: changes were tried {} first, and {} at most of them run whole, "
        "until {} were found with which no {} {}\n",
        report.distinct_lengths, alone_words(report, remedies), sim::kWholeForLengths, sim::kRemediesForLengths,
        report.lengths.drawn() ? "seed" : "step", remedies.before.out_of_memory > 0 ? "runs out of memory" : "retries");
  for (const sim::ForecastRemedy& remedy : remedies.too_dear) {
    const std::string costs = costs_words(remedy);
    const double saved = remedy.saved_ms;
    out << fmt::format("costs more time than it saves{}: {} ({}{}{}the driver's calls take {} {})\n",
                       remedy.alone ? ", " + alone_words(report, remedies) : std::string(), remedy.setting,
                       remedy.retries_less > 0 ? counted(remedy.retries_less, "retry", "retries") + " less; " : "",
                       costs, costs.empty() ? "" : "; ", time_words(std::abs(saved)), saved < 0 ? "more" : "less");
  }
  const auto priced = [](const sim::ForecastRemedy& one) { return one.step_ms_more.has_value(); };
  if (std::ranges::any_of(remedies.useful, priced) || std::ranges::any_of(remedies.too_dear, priced))
    out << (report.of_model ? fmt::format("ms a step are planned, in the mean of {}, on all of the machine's memory\n",
                                          report.distinct_lengths <= sim::kPlannedLengths
                                              ? std::string("the run's lengths")
                                              : fmt::format("{} of the run's lengths, its deciles 1, 3, 5, 7 and 9",
                                                            sim::kPlannedLengths))
                            : std::string("ms a step are of the recording's own steps, planned; of padding, scaled\n"));
}

void print_remedies(std::ostream& out, const ForecastReport& report) {
  const sim::ForecastRemedies& remedies = *report.remedies;
  out << "\nremedies";
  if (remedies.before.seeds > 1)
    out << fmt::format(" (on all {} seeds: of each number the worst of them)", remedies.before.seeds);
  out << '\n';
  print_remedy_table(out, remedies.useful, false, remedies.before);
  if (std::ranges::any_of(remedies.useful, &sim::ForecastRemedy::alone)) {
    out << fmt::format("\nothers, {}{}\n", alone_words(report, remedies),
                       report.seeds.size() > 1 ? ", which fares worst" : "");
    print_remedy_table(out, remedies.useful, true, remedies.before_seed);
  }
  out << fmt::format("{} of {} simulated changes help", remedies.useful.size(), remedies.tried);
  out << (remedies.impossible.empty() ? "\n"
                                      : fmt::format(", {} could not be simulated\n", remedies.impossible.size()));
  print_remedy_notes(out, report, remedies);
  for (const sim::ForecastRemedy& remedy : remedies.useful)
    out << "\n  " << remedy.setting << ": " << remedy.reason << '\n' << indented(remedy.pytorch);
  for (const std::string& doubt : remedies.doubts) out << "\n  not valid: " << in_line(doubt) << '\n';
  for (const std::string& why : remedies.impossible) out << "\n  not simulated: " << in_line(why) << '\n';
}

/// The change that helps most, where one does.
void print_headline(std::ostream& out, const ForecastReport& report) {
  const sim::ForecastRemedies& remedies = *report.remedies;
  if (remedies.useful.empty()) return;
  const sim::ForecastRemedy& best = remedies.useful.front();
  // Of a run that lives nothing is recommended whose price is not known.
  if (remedies.before.out_of_memory == 0 && best.price != sim::RemedyPrice::none && !best.step_ms_more) return;
  const std::string costs = costs_words(best);
  const std::string none_lives = best.over_all.out_of_memory == 0
                                     ? std::string()
                                     : fmt::format("no change that was simulated keeps {} alive; ",
                                                   remedies.before.seeds > 1 ? "every seed" : "it");
  out << fmt::format("{}with {}{}: {} reserved at most, {}{}\n", none_lives, best.setting,
                     best.alone ? ", " + alone_words(report, remedies) : std::string(),
                     format_bytes(best.over_all.peak_reserved), what_becomes(best.over_all),
                     costs.empty() ? "" : "; at " + costs);
}

}  // namespace

void print_forecast(std::ostream& out, const ForecastReport& report) {
  const SeedForecast& worst = report.seeds[sim::worst_of(report.seeds)];
  out << forecast_answer(report) << '\n';
  if (report.remedies) print_headline(out, report);
  out << in_line(model_title(report.name, report.model_options)) << " on " << in_line(report.machine) << ", "
      << in_line(lengths_line(report)) << '\n';
  for (const std::string& what : report.left_out) out << in_line(left_out_line(what)) << '\n';
  for (const std::string& why : report.not_valid) out << "not valid: " << in_line(why) << '\n';
  for (const std::string& note : report.notes) out << "note: " << in_line(note) << '\n';
  if (worst.behind_recorded_first)
    out << fmt::format(
        "note: step 0 runs behind the recording's own first step: what a first step of length {} asks for "
        "is not known\n",
        report.lengths.at(worst.seed, 0));
  if (report.seeds.size() > 1) print_seeds(out, report);
  if (report.seeds.size() > 1) out << "\nbelow: seed " << worst.seed << ", which fares worst\n";
  print_growth(out, worst);
  print_retries(out, worst);
  print_failure(out, report, worst);
  if (report.remedies) print_remedies(out, report);
}

}  // namespace foreshard::cli
