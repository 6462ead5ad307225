// What an exported timeline shows, row by row: steps, host threads, streams. Used by the Perfetto and the Chrome
// writer.
//
// In every row slices nest or are apart: viewers draw nothing else right (Perfetto clips or drops the rest). Of a
// stream they are apart. What would overlap goes to an overflow row of the same thread or stream, as many as it takes.
// Pure; deterministic.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/run/run.hpp"
#include "traces/export/selection.hpp"

namespace foreshard::traces {

struct Slice {
  enum class Of : std::uint8_t { step = 0, phase = 1, range = 2, host_op = 3, device_op = 4 };
  Nanoseconds start;  ///< moved by the selection's shift
  Nanoseconds end;
  Of of = Of::step;
  std::size_t index = 0;  ///< in Run::steps, phases, annotations, host_ops or device_ops
};

struct TrackRow {
  enum class Kind : std::uint8_t {
    steps = 0,          ///< steps and phases of the lanes' recording
    memory_steps = 1,   ///< of the memory recording, where that is another one
    memory_ranges = 2,  ///< annotations on the memory recording's clock
    thread = 3,
    stream = 4,
  };
  Kind kind = Kind::steps;
  std::uint32_t number = 0;    ///< thread, or StreamId
  std::uint32_t overflow = 0;  ///< 0: the row itself; else the n-th beside it
  std::string name;            ///< "stream 7 (compute)", "thread 0 (main), overlapping 1"
  std::vector<Slice> slices;   ///< by start, the longer one first
};

/// Rows without slices are left out, but for thread 0 of a run with device ops. `steps_on_main`: steps and phases of
/// the lanes' recording lie on thread 0 around its host ops, as a profiler's own annotations do.
[[nodiscard]] std::vector<TrackRow> track_rows(const Run& run, const ExportSelection& selection,
                                               bool steps_on_main = false);

/// Text of a slice.
[[nodiscard]] std::string slice_name(const Run& run, const Slice& slice);
/// Of a device op: its label, else what it is.
[[nodiscard]] std::string op_name(const Run& run, const DeviceOpRecord& op);
/// The number that profilers would show for a stream: its handle, else 7 for the compute stream (CUDA's default stream
/// in Kineto) and 7 more than its id for others.
[[nodiscard]] std::uint64_t stream_number(const Run& run, StreamId stream);
/// "all_gather" for a stream whose collectives are mostly that; "compute"; its own name in a plan; empty else.
[[nodiscard]] std::string stream_role(const Run& run, StreamId stream);
/// Module path, "root", or empty where the op does not know its unit.
[[nodiscard]] std::string unit_name(const Run& run, UnitId unit);

/// By correlation: the first runtime call (in Run::host_ops) that the selection holds, for each device op that has one.
/// Same order as Run::device_ops; kNoCall where there is none.
inline constexpr std::size_t kNoCall = static_cast<std::size_t>(-1);
[[nodiscard]] std::vector<std::size_t> calls_of_ops(const Run& run, const ExportSelection& selection);

}  // namespace foreshard::traces
