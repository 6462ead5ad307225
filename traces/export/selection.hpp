// Which part of a run an export holds, and on which clock. Used by the writers of this folder and by viz/graph. Pure.
//
// A run that was planned or executed keeps its own times. An import has two clocks (core/run/run.hpp): the exported
// file has the lanes' clock, and memory is moved so that the step asked for, or each recording's last step, begins at
// the same moment on both. What then began before 0 moves everything by as much.
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/error.hpp"
#include "core/run/run.hpp"

namespace foreshard::traces {

struct ExportSelection {
  bool has_lanes = false;   ///< host and device ops
  bool has_memory = false;  ///< allocator events
  /// The device's ops have a place on the clock of `lanes`; not where that counts allocator events (counts_events()):
  /// theirs is the simulation's, then.
  bool has_device = true;
  Recording lanes = Recording::run;
  Recording memory = Recording::run;
  std::optional<StepRecord> lanes_step;  ///< only what the host issued in it; none: everything
  std::optional<StepRecord> memory_step;
  Nanoseconds lanes_shift;  ///< added to every time of the lanes
  Nanoseconds memory_shift;

  [[nodiscard]] bool two_clocks() const { return lanes != memory; }
  [[nodiscard]] bool holds(const DeviceOpRecord& op) const { return has_lanes && inside(lanes_step, op.issue); }
  [[nodiscard]] bool holds(const HostOpRecord& op) const { return has_lanes && inside(lanes_step, op.start); }
  [[nodiscard]] bool holds(const EventRecord& event) const { return has_lanes && inside(lanes_step, event.time); }
  [[nodiscard]] bool holds(const AllocatorRecord& record) const {
    return has_memory && inside(memory_step, record.time);
  }
  /// Of a step or phase: of the recordings that are held.
  [[nodiscard]] bool holds(Recording recording, Nanoseconds start) const {
    if (recording == lanes && has_lanes) return inside(lanes_step, start);
    return recording == memory && has_memory && inside(memory_step, start);
  }
  [[nodiscard]] Nanoseconds shift(Recording recording) const {
    return recording == memory && two_clocks() ? memory_shift : lanes_shift;
  }

 private:
  static bool inside(const std::optional<StepRecord>& step, Nanoseconds time) {
    return !step || (time >= step->start && time < step->end);
  }
};

/// `step`: that step of each recording; none: everything. Fails (usage) where no recording has the step, and (input)
/// where the run holds neither ops nor allocator events, and as check_times() does.
[[nodiscard]] Result<ExportSelection> select_export(const Run& run, std::optional<std::int32_t> step);

/// The last step of the recording that saw the device; none where there is none.
[[nodiscard]] std::optional<std::int32_t> last_lanes_step(const Run& run);

}  // namespace foreshard::traces
