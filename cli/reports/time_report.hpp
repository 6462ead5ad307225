// How the time of a step is explained: a report for people, and the same numbers as JSON.
//
// Who: cli's explain --time. Pure text; equal input gives equal bytes. Times in JSON are nanoseconds of the run's
// clock, except those whose names end with _ms.
#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "cli/reports/link_report.hpp"
#include "cli/reports/roofline_report.hpp"
#include "cli/terminal/output.hpp"
#include "core/compare/run_totals.hpp"
#include "core/explain_time/critical_path.hpp"
#include "core/explain_time/time_explanation.hpp"
#include "core/run/run.hpp"
#include "core/straggler/rank_path.hpp"
#include "core/straggler/straggler.hpp"
#include "sim/sweep/time_remedies.hpp"

namespace foreshard::cli {

/// Of a recording that its profiler slowed: the step without the profiler.
struct CleanStep {
  double ms = 0;                             ///< as it was measured
  Run run = {};                              ///< the plan of the run's own settings
  std::optional<TimeExplanation> time = {};  ///< of that; none: no_plan says why
  std::string no_plan = {};
};

/// What remedies were simulated from, as `plan` takes it.
struct RemedySource {
  std::string options;  ///< behind RUN: "--machine h100"; may be empty
  Settings settings;    ///< those of the run's workload, which plan begins with
};

struct TimeReport {
  std::string path;  ///< RUN as given
  const Run& run;
  const TimeExplanation& time;
  std::vector<PathRow> critical_path;
  std::optional<StepTime> reported;      ///< what `plan` and `compare` call the step; none: another step was asked for
  std::optional<Stragglers> stragglers;  ///< none: one rank was recorded
  std::optional<sim::TimeRemedies> remedies;  ///< none: not asked for, or nothing to simulate from
  std::string no_remedies = {};               ///< why there are none; empty where there are
  std::string machine = {};                   ///< name of the profile that they were simulated on
  std::string machine_note = {};              ///< why that is not the run's; empty where it is, or was asked for
  std::string fingerprint = {};               ///< of the run; empty: a store without
  /// Of a recording whose steps differ: the mean of the measured steps of the step's size, ms; none: not known.
  std::optional<double> measured_of_size = {};
  std::optional<CleanStep> clean = {};         ///< none: no profiler slowed the step
  std::optional<RemedySource> source = {};     ///< none: RUN is no store, which plan could take
  std::optional<RankPath> rank_path = {};      ///< of the step; none: one rank was recorded
  std::optional<RunLinks> links = {};          ///< none: not asked for
  std::optional<sim::Roofline> roofline = {};  ///< none: the run's kernels have no shapes
};

/// The key "parts" of time_json() alone: a page has it of every step.
[[nodiscard]] Json parts_json(const Run& run, const TimeExplanation& time);

/// The keys of docs/explain.md, "Where the time goes".
[[nodiscard]] Json time_json(const TimeReport& report);

/// The command that plans the run with the remedy, and prints its step; of a bound the one whose --detail has it. Empty
/// where there is no store to plan from.
[[nodiscard]] std::string plan_command(const TimeReport& report, const sim::TimeRemedy& remedy);

/// What may help and is not simulated, one sentence each.
[[nodiscard]] std::vector<std::string> not_simulated(const TimeReport& report);

/// About 25 lines; `detail`: all of it.
void print_time(std::ostream& out, const TimeReport& report, bool detail);

}  // namespace foreshard::cli
