// The remedies of an explanation: simulated from the run's workload, and held against the run itself.
//
// Who: explain, and the page that view writes, so both say the same; compare, which plans a recording's own settings.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/reports/explain_report.hpp"
#include "cli/reports/time_report.hpp"
#include "cli/terminal/console.hpp"
#include "core/workload/workload.hpp"
#include "sim/predict/predict.hpp"

namespace foreshard::cli {

struct RemedyOptions {
  std::string machine;                ///< profile; empty: the run's own, else h200
  std::optional<Bytes> memory_limit;  ///< none: that of a plan, on its own machine; else the machine's
  bool from_store = true;             ///< RUN is a store, which commands of `plan` can name
};

/// As `plan` takes it of the run's store: a plan's with its topology and fabric. `asked`: RemedyOptions::machine.
[[nodiscard]] Result<sim::MachineProfile> machine_of_run(const std::string& asked, const Run& run);

/// The run's own settings on the machine that it was recorded on: the one that is asked for, where that is of its GPU,
/// else the run's own. `workload`: the run's.
[[nodiscard]] Result<sim::Prediction> plan_where_recorded(const Workload& workload, const RemedyOptions& options,
                                                          const Run& run);

/// Of a stored plan whose ranks draw lengths: the plan under `options.memory_limit`, with what its processes come to
/// reserve then (PredictRequest's drawn_memory), and what would fit where they do not live. None: it is no such plan,
/// no limit was given, or the store does not tell the program of each length.
[[nodiscard]] std::optional<sim::Prediction> plan_of_drawn(std::shared_ptr<const Workload> workload,
                                                           const RemedyOptions& options, const Run& run,
                                                           Console& console);

/// Puts them into `report`, or the reason why there are none. Warns where the run's own settings do not simulate to
/// what the run was. Fails where a machine that was asked for cannot be read.
[[nodiscard]] Result<void> add_remedies(std::shared_ptr<const Workload> workload, const RemedyOptions& options,
                                        Console& console, ExplainReport& report);

/// The same for the step's time.
[[nodiscard]] Result<void> add_time_remedies(std::shared_ptr<const Workload> workload, const RemedyOptions& options,
                                             Console& console, TimeReport& report);

/// Where a profiler slowed the step, the plan of the step without it (TimeReport::clean). `workload`: null where there
/// is nothing to plan from; report.no_remedies says why.
void add_clean_step(const Workload* workload, const RemedyOptions& options, TimeReport& report);

}  // namespace foreshard::cli
