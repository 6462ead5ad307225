// Two tables of a plan that each add up: reserved memory at its peak by what holds it, and the step by phase and cause.
//
// Who: prediction_report. Pure; numbers are those of `explain` and `explain --time` of the same run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/terminal/output.hpp"
#include "core/explain_time/phase_times.hpp"
#include "core/explain_time/time_explanation.hpp"
#include "core/explain_time/waited_kinds.hpp"
#include "sim/predict/predict.hpp"

namespace foreshard::cli {

struct PlanMemory {
  struct Row {
    std::string what;  ///< a category of blocks in use, "pending_free" or "free"
    Bytes bytes = 0;
  };
  std::int32_t step = -1;  ///< in which reserved memory peaks
  std::string phase;       ///< then; empty: between phases
  std::vector<Row> rows;   ///< categories, the largest first; then what the allocator holds beside them
  Bytes reserved = 0;      ///< the rows' sum
};

/// Of the step whose peak decides what fits; of a plan that ran out of memory until then. None: the run has no such
/// step, or not every op (PredictRequest::ops_alone).
[[nodiscard]] std::optional<PlanMemory> memory_table(const sim::Prediction& p);

/// Where the step's time goes, found once for all that is said of it; none where there is no time, or where it is a
/// mean of steps that differ.
using PlanTime = std::optional<TimeExplanation>;
[[nodiscard]] PlanTime plan_time(const sim::Prediction& p);

/// Both, each found on a thread of its own.
struct PlanTables {
  std::optional<PlanMemory> memory;  ///< memory_table()
  PlanTime time;
};
[[nodiscard]] PlanTables plan_tables(const sim::Prediction& p);

/// "reduce-scatter of the root (1.96 GiB), 4.91 ms": the collective of which the step has most exposed, without waits
/// for a late rank, which are that rank's; empty: none.
/// With experts on several ranks, whose blocks have several exchanges each, of each kind all together: "all-to-alls,
/// 34.16 ms together".
[[nodiscard]] std::string most_exposed(const sim::Prediction& p, const PlanTime& time);

void print_plan_tables(std::ostream& out, const sim::Prediction& p, const PlanTables& tables);
void add_plan_tables(const sim::Prediction& p, const PlanTables& tables, Json& json);

}  // namespace foreshard::cli
