// A Chakra execution trace of one rank: nodes for ASTRA-sim and mlcommons/chakra's tools (schema 0.0.4,
// docs/exports.md).
//
// One node a device op, with its recorded duration in whole microseconds (at least 1) and, as data dependencies, the op
// before it on its stream and the ops that its stream waited for by events. Written as it goes. Deterministic.
#pragma once

#include "core/base/error.hpp"
#include "core/run/run.hpp"
#include "traces/export/byte_sink.hpp"
#include "traces/export/selection.hpp"

namespace foreshard::traces {

/// Fails (input) for a run without device ops.
[[nodiscard]] Result<void> write_chakra(const Run& run, const ExportSelection& selection, ByteSink& sink);

}  // namespace foreshard::traces
