// Two stored runs set side by side: what `compare` reports, and the pages that show two runs.
#pragma once

#include <optional>
#include <string>

#include "cli/reports/compare_report.hpp"
#include "core/base/error.hpp"
#include "core/run/run.hpp"

namespace foreshard::cli {

/// Which step of each run; none: the run's own.
struct ComparedSteps {
  std::optional<std::int32_t> a = {};
  std::optional<std::int32_t> b = {};
};

/// `a` and `b` were read from the stores at those paths. Errors: those of summarise() and of compare_runs().
[[nodiscard]] Result<CompareReport> compare_pair(const Run& a, const std::string& a_path, const Run& b,
                                                 const std::string& b_path, const ComparedSteps& steps = {});

}  // namespace foreshard::cli
