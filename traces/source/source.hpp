// SOURCE of plan, sweep and run: where a workload comes from. A run store (the workload that it was
// imported or planned with) or a workload file (docs/workload.md).
//
// Reads files; otherwise without state. Who: cli's verbs that take a SOURCE.
#pragma once

#include <string>

#include "core/base/error.hpp"
#include "core/workload/workload.hpp"

namespace foreshard::traces {

/// Fails with ErrorKind::input or ::usage, saying what the file is and what would work instead: a
/// snapshot or a trace must be imported first, a store without a workload be imported again.
[[nodiscard]] Result<Workload> read_source(const std::string& path);

}  // namespace foreshard::traces
