// What a recording alone settles about its run: units, parameters and settings, each with what it was read from.
//
// A snapshot has FSDP's ranges and every request inside them, which are enough for a workload; a trace adds the world,
// the GPU and the dtypes. What several settings would leave behind alike is not settled: PyTorch's default is taken and
// the item says so.
//
// Who: traces/import. Pure, deterministic, thread-safe. Nothing here fails: a recording that settles too little says
// why in `why_not`.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/allocator/snapshot.hpp"
#include "core/settings/settings.hpp"
#include "core/workload/unit.hpp"
#include "traces/capture/hooks.hpp"
#include "traces/capture/timing.hpp"
#include "traces/infer/recorded_units.hpp"
#include "traces/pytorch/profiler_trace.hpp"

namespace foreshard::traces {

struct InferInput {
  const Snapshot& snapshot;
  std::span<const CaptureEvent> events;  ///< of the snapshot
  std::span<const Range> ranges;         ///< of the snapshot, on the same clock
  const ProfilerTrace* trace = nullptr;  ///< null: none was recorded
  std::span<const Range> trace_ranges = {};
};

/// One line of what was inferred.
struct InferredItem {
  std::string key;      ///< of a setting (core/settings/settings_table.hpp), or "units", "parameters", "gpu", …
  std::string value;    ///< JSON text, as the about file has it; "units" and "parameters" are counts
  std::string from;     ///< what of the recording shows it: a clause
  bool settled = true;  ///< false: assumed, the recording fits other values as well
};

struct Inference {
  Settings settings;
  std::vector<Unit> units;
  std::uint32_t sm_count = 0;          ///< 0: not known
  std::string why_not;                 ///< why there can be no workload: a clause; empty: there can
  std::string disagreement;            ///< why the trace is of another run: a clause; empty: it can be of this one
  std::uint32_t other_ranks = 1;       ///< ranks of the world for each rank of FSDP's mesh: other parallelism beside it
  std::uint32_t neighbours_apart = 0;  ///< global ranks between neighbours of FSDP2's group; 0: no trace shows it
  std::vector<bool> checkpointed;      ///< by block whose backward is long enough to tell; empty: none is
  std::vector<RecordedUnit> recorded;
  std::vector<Bytes> inputs;  ///< sizes requested between a microbatch's start and its forward, each once
  std::vector<std::optional<AttentionShape>> attention;  ///< by step of the trace
  std::vector<InferredItem> items;                       ///< in the order in which they are shown
  std::vector<std::string> unsettled;                    ///< what the recording does not settle, one sentence each
  std::string other_inputs;  ///< why the trace's attention may be of another run: a clause; empty: nothing says so

  /// The item of that key; null: none.
  [[nodiscard]] const InferredItem* item(std::string_view key) const;
  /// Replaces the item of that key, or adds it.
  void set(InferredItem item);
};

[[nodiscard]] Inference infer(const InferInput& input);

}  // namespace foreshard::traces
