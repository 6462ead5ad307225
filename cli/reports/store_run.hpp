// How a run is stored with the answers that its verb gave, so that they can be read from the file alone: plan's, run's
// and sweep's -o.
#pragma once

#include <string>

#include "cli/terminal/output.hpp"
#include "core/base/error.hpp"
#include "core/run/run.hpp"
#include "core/workload/workload.hpp"

namespace foreshard::cli {

/// Writes `run` to a store at `path`, with the answers in `json` but for those that the store has anyway, the workload
/// that it was made from and this program's version, which become `run`'s too. Errors as traces::write_run().
[[nodiscard]] Result<void> store_run(const Json& json, const Workload& workload, const std::string& path, bool force,
                                     Run& run);

}  // namespace foreshard::cli
