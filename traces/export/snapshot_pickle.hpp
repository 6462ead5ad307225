// A PyTorch memory snapshot (torch.cuda.memory._dump_snapshot) of a run: what memory_viz, our own reader and `replay`
// open (docs/exports.md; caching allocator 9).
//
// Events come out in order, with the addresses, sizes and streams of the run, times in whole microseconds. Each
// allocation carries its category, and as frames what the store knows of it: what allocated it, its unit and category.
// Written as it goes. Deterministic.
#pragma once

#include "core/base/error.hpp"
#include "core/run/run.hpp"
#include "traces/export/byte_sink.hpp"

namespace foreshard::traces {

/// Fails (input) for a run without allocator events and segments, and (usage) where its alloc_conf cannot be read.
[[nodiscard]] Result<void> write_snapshot(const Run& run, ByteSink& sink);

}  // namespace foreshard::traces
