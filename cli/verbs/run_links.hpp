// The links' load of a run, with the profile of its machine. Who: explain --time, view and serve, so that all say the
// same.
#pragma once

#include <string>

#include "cli/reports/link_report.hpp"
#include "core/base/error.hpp"
#include "core/run/run.hpp"
#include "core/workload/workload.hpp"

namespace foreshard::cli {

/// With the workload that the run has in itself.
[[nodiscard]] Result<RunLinks> links_of(const Run& run, const std::string& machine);

/// `workload`: the run's; null: it has none. `machine`: as --machine of explain says it; empty: the run's, else h200.
/// Fails where a machine that was asked for cannot be read.
[[nodiscard]] Result<RunLinks> links_of(const Run& run, const Workload* workload, const std::string& machine);

}  // namespace foreshard::cli
