// What `compare` says, as tables and as JSON.
//
// Used by cli/verbs/compare.cpp. Pure text; the numbers are those of core/compare and of the stores' views.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "cli/reports/run_summary.hpp"
#include "cli/terminal/output.hpp"
#include "core/compare/compare.hpp"
#include "core/run/step_shapes.hpp"

namespace foreshard::cli {

/// What the compared steps work on, and what the runs' step times are the means of.
struct ComparedWork {
  struct Side {
    StepShape step;               ///< of the step whose time is laid beside the other's
    StepShape memory;             ///< of the step whose memory is
    std::vector<StepShape> mean;  ///< of the run's step time (StepShapes::of_mean()), or of the step that was asked for
    double work = 0;              ///< tokens (or samples) a GPU of a step of `mean`; 0: not known
    /// Of a recording the mean of the steps of the size of `step` that were measured without the profiler, of a plan or
    /// an executed run `step`; none: not known.
    std::optional<double> size_ms = {};
    std::optional<double> mean_ms = {};  ///< the run's step time; none: none is known, or a step was asked for
  };
  Side a;
  Side b;
  /// A run's steps are of several sizes, and none was asked for: one of each is laid beside the other, of one size
  /// where both have one, and the runs' step times are means.
  bool steps_differ = false;

  [[nodiscard]] bool different() const { return a.work > 0 && b.work > 0 && a.work != b.work; }
};

struct CompareReport {
  RunSummary a;
  RunSummary b;
  Comparison comparison;
  /// Of two plans of one source: nine of ten measured differences lie within so much of the planned one, relative to
  /// A's step (sim::difference_within()); none: of others.
  std::optional<double> within = {};
  std::string different_models;  ///< model_difference(); empty: one model
  ComparedWork work = {};
  /// A recording and a plan that was made from it: the recording's plan at its own settings. What that differs from the
  /// recording by is the model's bias, a cause of its own (Comparison::bias).
  std::optional<RunSummary> model = {};
  bool model_of_a = true;          ///< A is that recording, else B
  bool is_own_plan = false;        ///< the plan is that one: all that differs is the model's bias
  std::string model_unknown = {};  ///< why a recording's bias is not known against this plan; empty: it is, or is none

  /// A job that hangs has no step: nothing but settings is compared.
  [[nodiscard]] bool hangs() const { return a.hangs || b.hangs; }
};

/// How much longer B's step is than A's, where both are plans of one source: of the runs' step times, and of different
/// work a token (or sample).
struct PlannedDifference {
  double difference = 0;  ///< B's less A's, ms; of different work us a token
  double within = 0;      ///< in the same unit: nine of ten measured ones lie within so much of it
  bool of_work = false;   ///< of different work
};
[[nodiscard]] std::optional<PlannedDifference> planned_difference(const CompareReport& report);

/// `units`: at most so many rows of the table of units, largest difference first.
void print_compare(std::ostream& out, const CompareReport& report, std::uint32_t units);
[[nodiscard]] Json compare_json(const CompareReport& report);
/// Whether any setting or number of the report differs.
[[nodiscard]] bool differs(const CompareReport& report);

}  // namespace foreshard::cli
