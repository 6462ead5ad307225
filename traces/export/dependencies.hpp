// core/run/op_dependencies.hpp over what an export holds. Used by the Chakra writer and viz/graph. Pure; deterministic.
#pragma once

#include <vector>

#include "core/run/op_dependencies.hpp"
#include "traces/export/selection.hpp"

namespace foreshard::traces {

using foreshard::OpDependencies;

/// Of the ops that the selection holds, in issue order; they name only such ops.
[[nodiscard]] std::vector<OpDependencies> op_dependencies(const Run& run, const ExportSelection& selection);

}  // namespace foreshard::traces
