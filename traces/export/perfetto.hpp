// Perfetto's native trace: what ui.perfetto.dev and trace_processor open (docs/exports.md).
//
// Tracks: steps and phases, host threads, one a stream, counters of the four memory totals in bytes, marks for
// releases of segments and out-of-memory. Slices carry what the store knows of an op; flows lead from the host's call
// to the device op. Deterministic; written as it goes, apart from an index of slices (24 bytes each).
#pragma once

#include "core/run/run.hpp"
#include "traces/export/byte_sink.hpp"
#include "traces/export/selection.hpp"

namespace foreshard::traces {

void write_perfetto(const Run& run, const ExportSelection& selection, ByteSink& sink);

}  // namespace foreshard::traces
