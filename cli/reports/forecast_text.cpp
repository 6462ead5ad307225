// The report of forecast for people.

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "cli/reports/counted.hpp"
#include "cli/reports/forecast_report.hpp"
#include "cli/reports/indented.hpp"
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
               {"the first request"}});
  const std::size_t shown = std::min(seed.retries.size(), kForecastRows);
  for (std::size_t i = 0; i < shown; ++i) {
    const sim::RetryStep& step = seed.retries[i];
    table.row({std::to_string(step.step), std::to_string(step.length), std::to_string(step.retries),
               std::to_string(step.released), std::to_string(step.made),
               fmt::format("{} for {}{}", step.request, format_bytes(step.bytes), step.served ? "" : ", not served")});
  }
  table.print(out);
  if (shown < seed.retries.size()) out << fmt::format("and {} more; --json has all\n", seed.retries.size() - shown);
  out << "what that costs in time is not known here: no machine profile has the price of a retry, which waits for the "
         "GPU\nand calls cudaFree and cudaMalloc as often as the table says; explain --growth reads it from a "
         "recording\n";
}

void print_alone(std::ostream& out, const sim::LongestAlone& alone) {
  out << fmt::format("in a process of its own length {} {}", alone.length, alone.fits ? "fits" : "does not fit either");
  if (!alone.longest) out << "; no length of this run does\n";
  if (alone.longest) out << fmt::format("; the longest of this run that does is {}\n", *alone.longest);
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

/// Those that were simulated on the same seeds, below the run as it is on these; nothing where there are none.
void print_remedy_table(std::ostream& out, const std::vector<sim::ForecastRemedy>& useful, bool alone,
                        const sim::SeedsOutcome& before) {
  Table table({{"setting"},
               {"peak reserved", Align::right},
               {"saves", Align::right},
               {"more tokens", Align::right},
               {"steps giving back", Align::right},
               {"cudaFree", Align::right},
               {"cudaMalloc", Align::right},
               {"what becomes of the run"}});
  const auto add = [&](const std::string& setting, const sim::SeedsOutcome& over, std::int64_t saving, double tokens) {
    table.row({setting, format_bytes_fixed(over.peak_reserved),
               saving > 0 ? format_bytes_fixed(static_cast<Bytes>(saving)) : "",
               tokens != 0 ? fmt::format("{:.1f} %", tokens * 100) : "", std::to_string(over.steps_giving_back),
               std::to_string(over.driver_frees), std::to_string(over.driver_allocations), what_becomes(over)});
  };
  add("as it is", before, 0, 0);
  for (const sim::ForecastRemedy& remedy : useful)
    if (remedy.alone == alone) add(remedy.setting, remedy.over_all, remedy.saving, remedy.more_tokens);
  table.print(out);
}

void print_remedies(std::ostream& out, const sim::ForecastRemedies& remedies) {
  out << "\nremedies";
  if (remedies.before.seeds > 1)
    out << fmt::format(" (on all {} seeds: of each number the worst of them)", remedies.before.seeds);
  out << '\n';
  print_remedy_table(out, remedies.useful, false, remedies.before);
  if (std::ranges::any_of(remedies.useful, &sim::ForecastRemedy::alone)) {
    out << fmt::format("\nothers, on seed {} alone, which fares worst\n", remedies.seed);
    print_remedy_table(out, remedies.useful, true, remedies.before_seed);
  }
  out << fmt::format("{} of {} simulated changes help", remedies.useful.size(), remedies.tried);
  out << (remedies.impossible.empty() ? "\n"
                                      : fmt::format(", {} could not be simulated\n", remedies.impossible.size()));
  for (const sim::ForecastRemedy& remedy : remedies.useful)
    out << "\n  " << remedy.setting << ": " << remedy.reason << '\n' << indented(remedy.pytorch);
  for (const std::string& doubt : remedies.doubts) out << "\n  not valid: " << in_line(doubt) << '\n';
  for (const std::string& why : remedies.impossible) out << "\n  not simulated: " << in_line(why) << '\n';
}

/// The change that helps most, where one does.
void print_headline(std::ostream& out, const sim::ForecastRemedies& remedies) {
  if (remedies.useful.empty()) return;
  const sim::ForecastRemedy& best = remedies.useful.front();
  out << fmt::format("with {}{}: {} reserved at most, {}\n", best.setting,
                     best.alone ? fmt::format(", on seed {} alone", remedies.seed) : std::string(),
                     format_bytes(best.over_all.peak_reserved), what_becomes(best.over_all));
}

}  // namespace

void print_forecast(std::ostream& out, const ForecastReport& report) {
  const SeedForecast& worst = report.seeds[sim::worst_of(report.seeds)];
  out << forecast_answer(report) << '\n';
  if (report.remedies) print_headline(out, *report.remedies);
  out << in_line(report.name) << " on " << in_line(report.machine) << ", " << in_line(lengths_line(report)) << '\n';
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
  if (report.remedies) print_remedies(out, *report.remedies);
}

}  // namespace foreshard::cli
