// Which FSDP unit each block of a run belongs to, for memory by unit: one rule for every table. Pure.
//
// A block of FSDP's own, or of a parameter, has its unit; another the one whose module ran when it was allocated: the
// innermost that the module's path is in, or the root where that holds one of its parameters (BlockRecord::module).
// None: libraries' workspaces, the loss, and what the recording tells no module of.
#pragma once

#include <vector>

#include "core/run/run.hpp"

namespace foreshard {

/// By block; invalid: none. Linear in the run.
[[nodiscard]] std::vector<UnitId> block_units(const Run& run);

}  // namespace foreshard
