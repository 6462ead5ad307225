// How one prediction is shown: plan's results, and the best point of a sweep.
#pragma once

#include <string>

#include "cli/reports/plan_answer.hpp"
#include "cli/terminal/console.hpp"
#include "cli/terminal/output.hpp"
#include "core/workload/workload.hpp"
#include "sim/predict/predict.hpp"
#include "sim/sweep/remedies.hpp"

namespace foreshard::cli {

/// plan's --json: the keys of docs/plan.md. `source` as the user gave it; `fitting`: changes that would fit, of a
/// prediction that ran out of memory.
[[nodiscard]] Json prediction_json(const std::string& source, const PlanBasis& basis, const Workload& workload,
                                   const sim::Prediction& p, const sim::Remedies* fitting = nullptr);

/// Of every verb's JSON that plans or runs: what it started from and what of that was left out.
void add_basis(const PlanBasis& basis, Json& json);

/// Of that JSON the keys of time: the step and its parts, what binds it, its interval. Null where there is no time.
void add_times(const sim::Prediction& p, Json& json);
/// Of that JSON the keys of memory: peaks, retries, what the allocator may take and whether that is enough.
void add_memory(const sim::Prediction& p, Json& json);

/// The answer and its two tables, in at most 25 lines where the recorded steps are equal; `detail`: all numbers.
/// `fitting`: changes that would fit, of a prediction that ran out of memory.
void print_prediction(Console& console, const PlanBasis& basis, const sim::Prediction& p, bool detail,
                      const sim::Remedies* fitting = nullptr);

/// Of a prediction that ran out of memory: the simulated changes that fit.
void print_what_fits(Console& console, const sim::Prediction& p, const sim::Remedies& remedies);

/// Out of memory and deadlock, as errors on stderr.
void report_failure(Console& console, const sim::Prediction& p);

}  // namespace foreshard::cli
