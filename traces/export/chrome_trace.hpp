// A profiler trace as Kineto writes it (libkineto/src/output_json.cpp): Chrome JSON for Perfetto, chrome://tracing,
// Holistic Trace Analysis and our own `import --trace`, which reads the same ops and times back (docs/exports.md).
//
// Written as it goes, apart from an index of slices (24 bytes each). Deterministic.
#pragma once

#include "core/run/run.hpp"
#include "traces/export/byte_sink.hpp"
#include "traces/export/selection.hpp"

namespace foreshard::traces {

void write_chrome_trace(const Run& run, const ExportSelection& selection, ByteSink& sink);

}  // namespace foreshard::traces
