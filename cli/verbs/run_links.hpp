// The links' load of a run, with the profile of its machine. Who: explain --time, view and serve, so that all say the
// same.
#pragma once

#include <optional>
#include <string>

#include "cli/reports/link_report.hpp"
#include "cli/terminal/console.hpp"
#include "core/base/error.hpp"
#include "core/run/run.hpp"
#include "core/workload/workload.hpp"

namespace foreshard::cli {

/// With the workload that the run has in itself.
[[nodiscard]] Result<std::optional<RunLinks>> links_of(const Run& run, const std::string& machine, Console& console);

/// `workload`: the run's; null: it has none. `machine`: as --machine of explain says it; empty: the run's, else h200.
/// Fails where a machine that was asked for cannot be read; where the run's own cannot be had, as with a damaged
/// topology in the store or a profile that is not built in, there are none, and the console is told why.
[[nodiscard]] Result<std::optional<RunLinks>> links_of(const Run& run, const Workload* workload,
                                                       const std::string& machine, Console& console);

}  // namespace foreshard::cli
