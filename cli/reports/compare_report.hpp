// What `compare` says, as tables and as JSON.
//
// Used by cli/verbs/compare.cpp. Pure text; the numbers are those of core/compare and of the stores' views.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

#include "cli/reports/run_summary.hpp"
#include "cli/terminal/output.hpp"
#include "core/compare/compare.hpp"

namespace foreshard::cli {

struct CompareReport {
  RunSummary a;
  RunSummary b;
  Comparison comparison;
  std::string different_models;  ///< model_difference(); empty: one model
  bool steps_differ = false;     ///< a recording of steps of several sizes, of which one is compared
  /// A recording and a plan that was made from it: the recording's plan at its own settings. What that differs from the
  /// recording by is the model's bias, a cause of its own (Comparison::bias).
  std::optional<RunSummary> model = {};
  bool model_of_a = true;          ///< A is that recording, else B
  bool is_own_plan = false;        ///< the plan is that one: all that differs is the model's bias
  std::string model_unknown = {};  ///< why a recording's bias is not known against this plan; empty: it is, or is none

  /// A job that hangs has no step: nothing but settings is compared.
  [[nodiscard]] bool hangs() const { return a.hangs || b.hangs; }
};

/// `units`: at most so many rows of the table of units, largest difference first.
void print_compare(std::ostream& out, const CompareReport& report, std::uint32_t units);
[[nodiscard]] Json compare_json(const CompareReport& report);
/// Whether any setting or number of the report differs.
[[nodiscard]] bool differs(const CompareReport& report);

}  // namespace foreshard::cli
