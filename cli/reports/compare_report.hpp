// What `compare` says, as tables and as JSON.
//
// Used by cli/verbs/compare.cpp. Pure text; the numbers are those of core/compare and of the stores' views.
#pragma once

#include <cstdint>
#include <ostream>

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
};

/// `units`: at most so many rows of the table of units, largest difference first.
void print_compare(std::ostream& out, const CompareReport& report, std::uint32_t units);
[[nodiscard]] Json compare_json(const CompareReport& report);
/// Whether any setting or number of the report differs.
[[nodiscard]] bool differs(const CompareReport& report);

}  // namespace foreshard::cli
